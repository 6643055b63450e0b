# Maximum likelihood under the asymmetric Laplace density (kappa = 0), three ways:
#   vgam   VGAM's alaplace3, an iteratively reweighted fit;
#   optim  the log-likelihood handed to Nelder-Mead from several starts;
#   exact  enumeration of the vertices that quantreg's whole quantile process visits.
# Run from this directory, after r_data.py: Rscript r_vgam.R
#
# Densities, with residual r = y - location:
#   VGAM  sqrt(2) k / (s (1 + k^2)) exp(-sqrt(2) |r| k / s) for r >= 0, 1/k for k when r < 0
#   ours  tau (1 - tau) / sigma exp(-(1 - tau) r / sigma)   for r >= 0,
#         tau (1 - tau) / sigma exp(tau r / sigma)          for r < 0
# Equal slopes on both sides give k^2 = (1 - tau) / tau and s = sqrt(2) sigma / sqrt(tau (1 - tau)):
#   tau = 1 / (1 + k^2),   sigma = s k / (sqrt(2) (1 + k^2)).

source("r_json.R")
suppressMessages(library(VGAM))
suppressMessages(library(quantreg))

problems <- list(
  engel_constant = list(csv = "r_engel.csv", formula = foodexp ~ 1),
  engel_income = list(csv = "r_engel.csv", formula = foodexp ~ income),
  simulated_constant = list(csv = "r_simulated.csv", formula = y ~ 1),
  simulated_x = list(csv = "r_simulated.csv", formula = y ~ x),
  simulated_x_z = list(csv = "r_simulated.csv", formula = y ~ x + z)
)

to_ours <- function(s, k) list(tau = 1 / (1 + k^2), sigma = s * k / (sqrt(2) * (1 + k^2)))

loglik <- function(beta, sigma, tau, x, y) {
  r <- drop(y - x %*% beta)
  sum(log(tau * (1 - tau) / sigma) - r * ((1 - tau) - (r < 0)) / sigma)
}

# The two densities agree for every sign of r: the conversion above, verified.
for (k in c(0.3, 1, 2.5)) {
  ours <- to_ours(s = 1.7, k = k)
  for (r in c(-3, -0.2, 0, 0.4, 5)) {
    mine <- loglik(0.5, ours$sigma, ours$tau, matrix(1), 0.5 + r)
    stopifnot(abs(mine - dalap(0.5 + r, 0.5, 1.7, kappa = k, log = TRUE)) < 1e-13)
  }
}

estimate <- function(beta, sigma, tau, x, y, ...) {
  list(coef = I(unname(beta)), sigma = sigma, tau = tau,
       loglik = loglik(beta, sigma, tau, x, y), ...)
}

# imethod is VGAM's choice of start; the better of the two fits is kept. vcov is the inverse of the
# expected information that VGAM holds in (location coefficients, log s, log k), moved to
# (coef, sigma, tau) with the Jacobian of the conversion.
fit_vgam <- function(formula, data, x, y) {
  runs <- lapply(1:2, function(start) {
    with_warnings(vglm(formula, alaplace3(imethod = start), data = data,
                       maxit = 5000, epsilon = 1e-15))
  })
  best <- which.max(vapply(runs, function(run) logLik(run$value), 0))
  fit <- runs[[best]]$value
  theta <- coef(fit)
  at <- match(c("(Intercept):2", "(Intercept):3"), names(theta))
  s <- unname(exp(theta[at[1]]))
  k <- unname(exp(theta[at[2]]))
  ours <- to_ours(s, k)
  stopifnot(abs(loglik(theta[-at], ours$sigma, ours$tau, x, y) - logLik(fit)) < 1e-8)

  p <- ncol(x)
  order <- c(setdiff(seq_along(theta), at), at)
  jacobian <- diag(p + 2)
  jacobian[p + 1, p + 1:2] <- c(ours$sigma, ours$sigma * (1 - k^2) / (1 + k^2))
  jacobian[p + 2, p + 1:2] <- c(0, -2 * k^2 / (1 + k^2)^2)
  covariance <- jacobian %*% vcov(fit)[order, order] %*% t(jacobian)
  estimate(theta[-at], ours$sigma, ours$tau, x, y,
           scale_vgam = s, kappa_vgam = k, imethod = best, iterations = fit@iter,
           warnings = I(unique(runs[[best]]$warnings)), cov_expected = covariance)
}

# Restarted Nelder-Mead on (coef, log sigma, logit tau): the function has kinks.
fit_optim <- function(x, y) {
  p <- ncol(x)
  negative <- function(v) -loglik(v[1:p], exp(v[p + 1]), plogis(v[p + 2]), x, y)
  start_at <- function(q) {
    beta <- rq.fit(x, y, tau = q)$coefficients
    r <- drop(y - x %*% beta)
    c(beta, log(mean(r * (q - (r < 0)))), qlogis(1 - q))
  }
  best <- NULL
  for (q in c(0.1, 0.3, 0.5, 0.7, 0.9)) {
    run <- list(par = start_at(q), value = Inf)
    repeat {
      before <- run$value
      run <- optim(run$par, negative, method = "Nelder-Mead",
                   control = list(reltol = 1e-15, maxit = 20000))
      if (before - run$value < 1e-11) break
    }
    if (is.null(best) || run$value < best$value) best <- run
  }
  estimate(best$par[1:p], exp(best$par[p + 1]), plogis(best$par[p + 2]), x, y)
}

# For fixed coefficients, with A and B the means of the positive and negative parts of r,
#   tau = sqrt(A) / (sqrt(A) + sqrt(B)),  sigma = sqrt(A B),  loglik = -n - 2 n log(sqrt(A) + sqrt(B)).
# For fixed tau some vertex of the check-loss problem is optimal, and rq(tau = -1) lists every
# vertex that is optimal for some quantile. The best of them is the global maximum.
fit_exact <- function(formula, data, x, y) {
  vertices <- vertices_of(formula, data, x, y)
  root_sum <- apply(vertices, 2, function(beta) {
    r <- drop(y - x %*% beta)
    sqrt(mean(pmax(r, 0))) + sqrt(mean(pmax(-r, 0)))
  })
  beta <- vertices[, which.min(root_sum)]
  rows <- order(abs(drop(y - x %*% beta)))[seq_len(ncol(x))]
  beta <- solve(x[rows, , drop = FALSE], y[rows])
  r <- drop(y - x %*% beta)
  r[rows] <- 0
  a <- mean(pmax(r, 0))
  b <- mean(pmax(-r, 0))
  estimate(beta, sqrt(a * b), sqrt(a) / (sqrt(a) + sqrt(b)), x, y,
           n_vertices = ncol(vertices), interpolated_rows = I(sort(rows) - 1))
}

# With a constant alone the vertices are the observations themselves.
vertices_of <- function(formula, data, x, y) {
  if (ncol(x) == 1) return(matrix(y, nrow = 1))
  rq(formula, tau = -1, data = data)$sol[-(1:3), ]
}

reference <- lapply(problems, function(problem) {
  data <- read.csv(problem$csv)
  x <- model.matrix(problem$formula, data)
  y <- model.response(model.frame(problem$formula, data))
  exact <- fit_exact(problem$formula, data, x, y)
  vgam <- fit_vgam(problem$formula, data, x, y)
  brute <- fit_optim(x, y)
  cat(sprintf("%-60s vgam %.3e  optim %.3e below exact\n", deparse(problem$formula),
              exact$loglik - vgam$loglik, exact$loglik - brute$loglik))
  list(csv = problem$csv, endog = all.vars(problem$formula)[1],
       exog = I(c("const", all.vars(problem$formula)[-1])),
       vgam = vgam, optim = brute, exact = exact)
})

write_json(list(made_with = made_with(c("VGAM", "quantreg")), problems = reference), "r_vgam.json")
