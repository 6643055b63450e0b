# JSON with 17 significant digits, so that every double survives the round trip.
# jsonlite stops at 15 digits, which is why the few lines below exist.

json_number <- function(x) {
  ifelse(is.finite(x), sprintf("%.17g", x), "null")
}

json_string <- function(x) {
  paste0("\"", gsub("([\"\\\\])", "\\\\\\1", gsub("\n", " ", x)), "\"")
}

# Lists with names become objects, lists without become arrays, scalars stay scalars;
# I(x) keeps an array of length one an array.
to_json <- function(x, indent = "") {
  inner <- paste0(indent, "  ")
  if (is.list(x)) {
    items <- vapply(x, to_json, "", indent = inner)
    if (!is.null(names(x))) items <- paste0(json_string(names(x)), ": ", items)
    open <- if (is.null(names(x))) c("[", "]") else c("{", "}")
    if (length(x) == 0) return(paste(open, collapse = ""))
    return(paste0(open[1], "\n", inner, paste(items, collapse = paste0(",\n", inner)),
                  "\n", indent, open[2]))
  }
  if (is.matrix(x)) return(to_json(lapply(seq_len(nrow(x)), function(i) I(x[i, ])), indent))
  if (length(x) == 0) return("[]")
  items <- if (is.character(x)) json_string(x)
           else if (is.logical(x)) ifelse(x, "true", "false")
           else json_number(as.double(x))
  if (length(x) == 1 && !inherits(x, "AsIs")) return(items)
  paste0("[", paste(items, collapse = ", "), "]")
}

write_json <- function(x, path) {
  writeLines(to_json(x), path)
}

# The value of an expression and the text of every warning it raised.
with_warnings <- function(expr) {
  texts <- character()
  value <- withCallingHandlers(expr, warning = function(w) {
    texts <<- c(texts, conditionMessage(w))
    invokeRestart("muffleWarning")
  })
  list(value = value, warnings = texts)
}

made_with <- function(packages) {
  versions <- lapply(packages, function(p) as.character(packageVersion(p)))
  names(versions) <- packages
  c(list(R = as.character(getRversion())), versions)
}
