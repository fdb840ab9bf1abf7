# test_promises.sh - every sentence of the README's "What it promises" has rows in tests/promises/README.md that name a test there is and a
# way to break it that still fits the source. `make test-promises` breaks them.
cd "$KILN_ROOT" || exit 2
status=0
verdict() { if [ -z "$2" ]; then echo "ok $1"; else printf '%s\n' "$2" | sed 's/^/  /'; echo "FAIL $1"; status=1; fi; }
table=tests/promises/README.md

# The sentences without links, and what is left of them when the clauses of the rows are taken out in their order.
sentences=$(sed -n '/^## What it promises/,/^## Writing/p' README.md | sed -n 's/^- //p' | sed -E 's/: see \[[^]]*\]\([^)]*\)//; s/\.$//')
left=$(awk -F ' \\| ' 'NR == FNR { if (/^\| .* \| tests\//) clause[++n] = substr($1, 3); next }
    { text = $0
      while (text != "") {
          sub(/^(, |: | )/, "", text)
          if (++at > n || index(text, clause[at]) != 1) { print "no row holds: " text; at--; break }
          text = substr(text, length(clause[at]) + 1)
      } }
    END { if (at < n) print "a row without a sentence: " clause[at + 1] }' "$table" <(printf '%s\n' "$sentences"))
verdict every_sentence_has_its_test "$left"

wrong=$(sed -nE 's/^\| (.*) \| (tests[^ |]*) \| ([^ |]*) \| ([^ |]*) \| `(.*)` \|$/\2\t\3\t\4\t\5/p' "$table" | sed 's/&#124;/|/g' |
    while IFS=$'\t' read -r test case file expression; do
        [ -e "$test" ] || echo "there is no $test"
        [ "$case" = any ] || grep -qw -- "$case" "$test" 2>/dev/null || echo "$test has no case $case"
        [ -e "$file" ] && ! sed -E "$expression" "$file" 2>/dev/null | cmp -s - "$file" || echo "$file is not changed by $expression"
    done)
verdict every_test_and_way_to_break_it_exists "$wrong"
[ "$(grep -c '^| .* | tests/' "$table")" -ge 20 ]; verdict the_table_was_read "$([ $? -eq 0 ] || echo 'fewer than 20 rows')"
exit $status
