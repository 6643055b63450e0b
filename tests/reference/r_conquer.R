# Convolution-smoothed regression quantiles by conquer with the uniform kernel.
# Run from this directory, after r_data.py: Rscript r_conquer.R
#
# The uniform kernel on [-h, h] turns the check loss at q into a loss with slope
#   clip(r / (2 h) + q - 1/2, q - 1, q).
# With tau = 1 - q and width 2 h this is the slope clip(r' / (2 h), -tau, 1 - tau) of the quantile
# Huber loss at the shifted residual r' = r + 2 h (q - 1/2). So conquer solves our problem with
# sigma = 1 and kappa = 2 h, its slopes are ours, and our constant is its intercept - 2 h (q - 1/2).

source("r_json.R")
suppressMessages(library(conquer))

data <- read.csv("r_simulated.csv")
x <- as.matrix(data[, c("x", "z")])
y <- data$y

fit_one <- function(q, h) {
  fit <- conquer(x, y, tau = q, kernel = "uniform", h = h, tol = 1e-13, iteMax = 100000)
  r <- drop(y - cbind(1, x) %*% fit$coeff)
  slope <- pmin(pmax(r / (2 * h) + q - 0.5, q - 1), q)
  list(q = q, tau = 1 - q, h = h, kappa = 2 * h, coef_conquer = I(fit$coeff),
       coef = I(fit$coeff - c(2 * h * (q - 0.5), 0, 0)),
       iterations = fit$ite,
       max_gradient = max(abs(crossprod(cbind(1, x), slope))) / length(y))
}

grid <- expand.grid(q = c(0.1, 0.25, 0.5, 0.75, 0.9), h = c(0.125, 0.5, 2))
fits <- Map(fit_one, grid$q, grid$h)
print(max(vapply(fits, function(fit) fit$max_gradient, 0)))

write_json(list(made_with = made_with("conquer"), csv = "r_simulated.csv", endog = "y",
                exog = I(c("const", "x", "z")), fits = unname(fits)), "r_conquer.json")
