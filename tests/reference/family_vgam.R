# Write family_vgam.csv: VGAM's asymmetric Laplace density and distribution function.
# Run as `Rscript tests/reference/family_vgam.R` from the top of the repository.
suppressMessages(library(VGAM))
grid <- expand.grid(x = c(-7.5, -1, -0.25, 0, 0.25, 1, 7.5), tau = c(0.1, 0.25, 0.5, 0.75, 0.9),
                    scale = c(0.5, 1, 2))
grid$pdf <- with(grid, dalap(x, location = 0, scale = scale, tau = tau))
grid$cdf <- with(grid, palap(x, location = 0, scale = scale, tau = tau))
grid$kappa <- with(grid, sqrt(tau / (1 - tau)))
out <- data.frame(lapply(grid, function(column) sprintf("%.17g", column)))
write.csv(out, "tests/reference/family_vgam.csv", row.names = FALSE, quote = FALSE)
cat("VGAM", as.character(packageVersion("VGAM")), R.version.string, "\n")
