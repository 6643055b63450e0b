# Tests of equal slopes across quantiles by quantreg, with the joint covariance behind them.
# Run from this directory, after r_data.py: Rscript r_anova.R

source("r_json.R")
suppressMessages(library(quantreg))

problems <- list(
  engel = list(csv = "r_engel.csv", endog = "foodexp", regressors = "income"),
  simulated = list(csv = "r_simulated.csv", endog = "y", regressors = c("x", "z"))
)
levels <- list(two = c(0.25, 0.75), three = c(0.25, 0.5, 0.75), five = c(0.1, 0.25, 0.5, 0.75, 0.9))

test_one <- function(formula, data, quantiles, se) {
  fits <- lapply(quantiles, function(q) rq(formula, tau = q, data = data))
  joint <- do.call(anova, c(fits, list(se = se)))$table
  each <- do.call(anova, c(fits, list(se = se, joint = FALSE)))$table
  parts <- lapply(fits, function(fit) summary(fit, se = se, covariance = TRUE))
  J <- parts[[1]]$J
  blocks <- lapply(seq_along(fits), function(i) {
    do.call(cbind, lapply(seq_along(fits), function(j) {
      q <- quantiles[c(i, j)]
      (min(q) - prod(q)) * parts[[i]]$Hinv %*% J %*% parts[[j]]$Hinv
    }))
  })
  list(q = I(quantiles), se = se,
       coef = do.call(rbind, lapply(fits, function(fit) unname(coef(fit)))),
       cov = unname(do.call(rbind, blocks)),
       F = joint$Tn, ndf = joint$ndf, ddf = joint$ddf, pvalue = joint$pvalue,
       F_each = I(each$Tn))
}

reference <- lapply(problems, function(problem) {
  data <- read.csv(problem$csv)
  formula <- reformulate(problem$regressors, problem$endog)
  tests <- list()
  for (name in names(levels)) for (se in c("nid", "ker"))
    tests[[paste(name, se, sep = "_")]] <- test_one(formula, data, levels[[name]], se)
  list(csv = problem$csv, endog = problem$endog,
       exog = I(c("const", problem$regressors)), tests = tests)
})

write_json(list(made_with = made_with("quantreg"), problems = reference), "r_anova.json")
