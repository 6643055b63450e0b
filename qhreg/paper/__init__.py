"""The paper's figures and tables from one command, each beside what the paper prints.

The paper is Natesan Ramamurthy, Aravkin and Thiagarajan, *Automatic Inference of the Quantile
Parameter*. The modules compute numbers (`curves`, `recovery`, `penalty`, `boosted`), compare them
with the printed ones (`printed`, `verdicts`), draw them (`drawing`) and write the pages (`pages`).
"""
