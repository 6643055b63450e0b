# Regression quantiles by quantreg: coefficients, objective and three kinds of standard errors.
# Run from this directory, after r_data.py: Rscript r_quantreg.R

source("r_json.R")
suppressMessages(library(quantreg))

quantiles <- c(0.1, 0.25, 0.5, 0.75, 0.9)

problems <- list(
  engel = list(csv = "r_engel.csv", endog = "foodexp", regressors = "income"),
  stackloss = list(csv = "r_stackloss.csv", endog = "STACKLOSS",
                   regressors = c("AIRFLOW", "WATERTEMP", "ACIDCONC")),
  statecrime = list(csv = "r_statecrime.csv", endog = "murder",
                    regressors = c("urban", "poverty", "hs_grad", "single")),
  simulated = list(csv = "r_simulated.csv", endog = "y", regressors = c("x", "z"))
)

# quantreg ships Engel's data too: the file must hold the same numbers, to the last bit.
data(engel)
stopifnot(identical(read.csv("r_engel.csv")$income, engel$income),
          identical(read.csv("r_engel.csv")$foodexp, engel$foodexp))

fit_one <- function(formula, data, q) {
  run <- with_warnings(rq(formula, tau = q, data = data, method = "br"))
  iid <- with_warnings(summary(run$value, se = "iid", covariance = TRUE))
  nid <- with_warnings(summary(run$value, se = "nid", covariance = TRUE))
  ker <- with_warnings(summary(run$value, se = "ker", covariance = TRUE))
  list(q = q, tau = 1 - q,
       coef = I(unname(coef(run$value))),
       rho = run$value$rho,
       unique = !any(grepl("nonunique", run$warnings)),
       bse_iid = I(unname(sqrt(diag(iid$value$cov)))),
       bse_nid = I(unname(sqrt(diag(nid$value$cov)))),
       bse_ker = I(unname(sqrt(diag(ker$value$cov)))),
       warnings_iid = I(iid$warnings),
       warnings_nid = I(nid$warnings),
       warnings_ker = I(ker$warnings))
}

reference <- lapply(problems, function(problem) {
  data <- read.csv(problem$csv)
  formula <- reformulate(problem$regressors, problem$endog)
  list(csv = problem$csv, endog = problem$endog,
       exog = I(c("const", problem$regressors)),
       fits = lapply(quantiles, function(q) fit_one(formula, data, q)))
})

write_json(list(made_with = made_with("quantreg"), problems = reference), "r_quantreg.json")
