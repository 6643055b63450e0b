# One method of R on data that Python wrote, timed: Rscript r_peer.R DIR N P METHOD Q REPEATS
# DIR holds X.bin (n x p doubles, column after column, a column of ones first) and y.bin.
# Prints one line of JSON. Only the fit is timed: reading, slicing and packing are not.

arguments <- commandArgs(trailingOnly = TRUE)
directory <- arguments[1]
n <- as.integer(arguments[2])
p <- as.integer(arguments[3])
method <- arguments[4]
q <- as.double(arguments[5])
repeats <- as.integer(arguments[6])

x <- matrix(readBin(file.path(directory, "X.bin"), "double", n * p), n, p)
y <- readBin(file.path(directory, "y.bin"), "double", n)

suppressMessages(library(quantreg))
invisible(loadNamespace("conquer"))
slopes <- if (grepl("^conquer", method)) x[, -1, drop = FALSE]
fit <- switch(method,
  rq_pfn = function() rq.fit(x, y, tau = q, method = "pfn")$coefficients,
  rq_fn = function() rq.fit(x, y, tau = q, method = "fn")$coefficients,
  rq_br = function() rq.fit(x, y, tau = q, method = "br")$coefficients,
  rq_formula_pfn = function() unname(rq(y ~ x - 1, tau = q, method = "pfn")$coefficients),
  conquer = function() conquer::conquer(slopes, y, tau = q)$coeff,
  conquer_uniform = function() conquer::conquer(slopes, y, tau = q, kernel = "uniform")$coeff,
  stop("unknown method: ", method)
)

set.seed(1)  # pfn draws a subsample
seconds <- cpu <- numeric(repeats)
for (i in seq_len(repeats)) {
  gc(verbose = FALSE)
  cpu_start <- sum(proc.time()[1:2])
  start <- Sys.time()
  coef <- fit()
  seconds[i] <- as.numeric(Sys.time() - start, units = "secs")
  cpu[i] <- sum(proc.time()[1:2]) - cpu_start
}
# R counts processor time in milliseconds: below twenty of them only the mean means anything.
cpu_seconds <- if (min(cpu) >= 0.02) min(cpu) else mean(cpu)

r <- drop(y - x %*% coef)
objective <- sum(r * (q - (r < 0)))
numbers <- function(v) paste0("[", paste(sprintf("%.17g", v), collapse = ", "), "]")
cat(sprintf(
  paste0("{\"method\": \"%s\", \"q\": %.17g, \"seconds\": %.6f, \"cpu_seconds\": %.6f, ",
         "\"all_seconds\": %s, \"coef\": %s, \"objective\": %.17g, \"blas\": \"%s\"}\n"),
  method, q, min(seconds), cpu_seconds, numbers(seconds), numbers(coef), objective,
  basename(extSoftVersion()[["BLAS"]])))
