# Reads what `go test` printed and repeats in at most 70 lines what failed: each failed test with its own words, the first
# lines of a panic, what does not compile, and last the packages. Continuous integration shows the end of a run only, and
# after a failed test come thousands of lines of others.
#
# A test's words and the logs that it passes on look alike, but a log comes from one place many times: of each place in a
# test, two lines are repeated.

function say(line) { if (lines++ < 58) print substr(line, 1, 600); else more++ }
/^ *--- FAIL: / { in_test = 1; split("", seen); rest = shown = 0; say($0); next }
/^ *--- / { in_test = 0; next }
/^(panic: |fatal error: |# )/ { in_test = 0; rest = 12 }
/^(FAIL|ok|\?|PASS|make)/ { in_test = rest = 0; if ($0 ~ /^FAIL./) packages[n++] = $0; next }
in_test && /^ +[A-Za-z0-9_]+\.go:[0-9]+: / { rest = seen[$1]++ < 2 ? 4 : 0 }
rest > 0 && (!in_test || shown++ < 25) { say($0); rest-- }
END {
	if (more) print "... and " more " more lines"
	for (i = 0; i < n && i < 10; i++) print packages[i]
}
