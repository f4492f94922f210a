# Trains one of kernlab's multi-class machines with an RBF kernel; kernlab.py calls it.
#
# Rscript kernlab.R TYPE ROWS COLUMNS C GAMMA TOL CACHE_MB
#   stdin   labels 1..k as int32, rows sorted by class; then X by column, float64
#   stdout  float64: seconds of the training call, row and column (from 1) of the coefficient that kernlab loses,
#           columns of alpha; then alpha by column
suppressPackageStartupMessages(library(kernlab))

arguments <- commandArgs(trailingOnly = TRUE)
type <- arguments[1]
numbers <- as.numeric(arguments[-1])
rows <- numbers[1]
columns <- numbers[2]

input <- file("stdin", "rb")
y <- readBin(input, "integer", rows, size = 4)
x <- matrix(readBin(input, "numeric", rows * columns), rows, columns)
close(input)

start <- Sys.time()
model <- ksvm(x, y, type = type, scaled = FALSE, kernel = "rbfdot", kpar = list(sigma = numbers[4]), C = numbers[3],
              tol = numbers[5], cache = numbers[6], prob.model = FALSE, fit = FALSE)
seconds <- as.numeric(difftime(Sys.time(), start, units = "secs"))

# tron_optim, the compiled part of ksvm, writes an objective into element `rows` (from 0) of the coefficients. It has
# them by row for spoc-svc and by column for kbb-svc, and sees the rows in the order of this sort.
alpha <- alpha(model)
order <- sort(y, method = "quick", index.return = TRUE)$ix
k <- length(unique(y))
lost <- if (type == "spoc-svc") c(order[rows %/% k + 1], rows %% k + 1) else c(order[1], 2)

output <- pipe("cat", "wb")
writeBin(c(seconds, lost, ncol(alpha), as.vector(alpha)), output)
close(output)
