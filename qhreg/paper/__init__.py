"""The numbers and figures of the paper from one command, beside what the paper prints.

The paper is Natesan Ramamurthy, Aravkin and Thiagarajan, *Automatic Inference of the Quantile
Parameter*. `curves` has its figures without regression, `recovery` Table 1 and the penalty at fixed
tau, `boosted` Table 2 and its data; `figures` draws, `report` writes the tables (CSV) and
the pictures (PNG). The pages that show them are docs/paper.
"""
