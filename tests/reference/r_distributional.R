# Regressors of the scale and of the asymmetry, by R alone:
#   vgam   VGAM's alaplace3 with regressors of log s and a constant k, where its model is ours at kappa = 0;
#   optim  the log-likelihood handed to R's optimisers from several starts.
# Run from this directory, after r_data.py: Rscript r_distributional.R
#
# Ours: log sigma = z'gamma, logit tau = w'delta; density exp(-rho(r / sigma)) / (sigma c(tau)).
# VGAM: log s = log sqrt(2) + log sigma - log(tau (1 - tau)) / 2, so that with a constant tau the slopes of
# log s are those of log sigma.

source("r_json.R")
suppressMessages(library(VGAM))

rho <- function(u, tau, kappa) {
  ifelse(u < -kappa * tau, -tau * u - kappa * tau^2 / 2,
         ifelse(u > kappa * (1 - tau), (1 - tau) * u - kappa * (1 - tau)^2 / 2,
                if (kappa > 0) u^2 / (2 * kappa) else 0))
}

log_c <- function(tau, kappa) {
  log(exp(-kappa * tau^2 / 2) / tau + exp(-kappa * (1 - tau)^2 / 2) / (1 - tau) +
        sqrt(2 * pi * kappa) * (pnorm((1 - tau) * sqrt(kappa)) - pnorm(-tau * sqrt(kappa))))
}

loglik <- function(v, y, x, z, w, kappa) {
  p <- ncol(x)
  q <- ncol(z)
  sigma <- exp(drop(z %*% v[p + 1:q]))
  tau <- plogis(drop(w %*% v[p + q + 1:ncol(w)]))
  sum(-log_c(tau, kappa) - log(sigma) - rho(drop(y - x %*% v[1:p]) / sigma, tau, kappa))
}

# The density integrates to one: the normaliser above, verified.
for (kappa in c(0, 0.5, 3)) {
  f <- function(u) exp(-rho(u, 0.3, kappa) - log_c(0.3, kappa))
  total <- integrate(f, -Inf, -kappa * 0.3, rel.tol = 1e-10)$value +
    integrate(f, kappa * 0.7, Inf, rel.tol = 1e-10)$value
  if (kappa > 0) total <- total + integrate(f, -kappa * 0.3, kappa * 0.7, rel.tol = 1e-10)$value
  stopifnot(abs(total - 1) < 1e-8)
}

# Restarted until nothing is gained: BFGS where the likelihood is smooth, Nelder-Mead always.
fit_optim <- function(y, x, z, w, kappa) {
  negative <- function(v) {
    value <- -loglik(v, y, x, z, w, kappa)
    if (is.finite(value)) value else 1e10
  }
  ols <- lm.fit(x, y)
  first <- c(ols$coefficients, log(mean(abs(ols$residuals)) / 4), rep(0, ncol(z) - 1), rep(0, ncol(w)))
  set.seed(1)
  best <- list(value = Inf)
  for (start in 1:12) {
    run <- list(par = first + if (start > 1) rnorm(length(first)) * 0.3 else 0, value = Inf)
    repeat {
      before <- run$value
      run <- optim(run$par, negative, method = "Nelder-Mead",
                   control = list(reltol = 1e-15, maxit = 20000))
      if (kappa > 0) {
        run <- optim(run$par, negative, method = "BFGS", control = list(reltol = 1e-15, maxit = 2000))
      }
      if (before - run$value < 1e-10) break
    }
    if (run$value < best$value) best <- run
  }
  list(params = unname(best$par), loglik = -best$value)
}

fit_vgam <- function(formula, data) {
  runs <- lapply(1:2, function(start) {
    with_warnings(vglm(formula, alaplace3(zero = "kappa", imethod = start), data = data,
                       maxit = 5000, epsilon = 1e-15))
  })
  best <- which.max(vapply(runs, function(run) logLik(run$value), 0))
  fit <- runs[[best]]$value
  list(names = I(names(coef(fit))), coef = unname(coef(fit)), loglik = logLik(fit),
       bse = unname(sqrt(diag(vcov(fit)))), warnings = I(unique(runs[[best]]$warnings)))
}

problems <- list(
  engel_scale = list(csv = "r_engel.csv", formula = foodexp ~ income, tau = FALSE, kappa = 0),
  simulated_scale = list(csv = "r_simulated.csv", formula = y ~ x, tau = FALSE, kappa = 0),
  engel_both = list(csv = "r_engel.csv", formula = foodexp ~ income, tau = TRUE, kappa = 1),
  simulated_both = list(csv = "r_simulated.csv", formula = y ~ x, tau = TRUE, kappa = 1),
  simulated_both_narrow = list(csv = "r_simulated.csv", formula = y ~ x, tau = TRUE, kappa = 0.2)
)

reference <- lapply(problems, function(problem) {
  data <- read.csv(problem$csv)
  # thousands, since optimisers without derivatives mind the units
  if (problem$csv == "r_engel.csv") data <- data / 1000
  x <- model.matrix(problem$formula, data)
  y <- unname(model.response(model.frame(problem$formula, data)))
  w <- if (problem$tau) x else x[, 1, drop = FALSE]
  made <- list(csv = problem$csv, endog = all.vars(problem$formula)[1],
               exog = I(c("const", all.vars(problem$formula)[-1])), tau_regressors = problem$tau,
               divided_by = if (problem$csv == "r_engel.csv") 1000 else 1, kappa = problem$kappa,
               optim = fit_optim(y, x, x, w, problem$kappa))
  if (problem$kappa == 0) made$vgam <- fit_vgam(problem$formula, data)
  made
})

write_json(list(made_with = made_with("VGAM"), problems = reference), "r_distributional.json")
