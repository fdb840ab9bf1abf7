# test_snippets.sh - code that a page shows is the code that is built: behind <!-- from FILE --> comes an indented block whose lines stand in FILE in that
# order, one after the other but for blanks and comments' indents; a line "..." leaves some out.
cd "$KILN_ROOT" || exit 2
status=0
# Says what is wrong with the blocks of a page, "LINE: text", and counts them: "blocks N".
snippets() {
    awk '
    function trimmed(t) { gsub(/^[ \t]+|[ \t]+$/, "", t); return t }
    function read_source(file,    line, text) {
        if (file in source) return
        text = "\n"
        while ((getline line < file) > 0) if (trimmed(line) != "") text = text trimmed(line) "\n"
        close(file)
        source[file] = text
    }
    function check_part() { # the lines since the last "..."
        if (part == "\n") return
        at = index(rest, part)
        if (!at) { print begin ": this is not in " file ":" part; bad = 1 } else rest = substr(rest, at + length(part) - 1)
        part = "\n"
    }
    function finish() { if (inside) { check_part(); if (!n) print begin ": no code comes after it"; inside = 0 } }
    /^<!-- from .* -->$/ { finish(); file = $3; read_source(file); if (source[file] == "\n") print FNR ": there is no " file
                           rest = source[file]; part = "\n"; begin = FNR; inside = 1; n = 0; blocks++; next }
    inside && /^    / { n++; if (trimmed($0) == "...") check_part(); else part = part trimmed($0) "\n"; next }
    inside && trimmed($0) != "" { finish() }
    END { finish(); print "blocks " blocks + 0 }' "$1"
}
for page in docs/*.md; do
    said=$(snippets "$page")
    blocks=$(sed -n 's/^blocks //p' <<<"$said"); said=$(grep -v '^blocks ' <<<"$said")
    [ "$blocks" -gt 0 ] || continue
    if [ -z "$said" ]; then echo "ok ${page#docs/} ($blocks pieces of code)"; else echo "  $page:$said"; echo "FAIL ${page#docs/}"; status=1; fi
done
[ "$(snippets docs/writing-a-model.md | sed -n 's/^blocks //p')" -ge 10 ] || { echo "FAIL the page on models shows its code"; status=1; }
# It sees a line that is not there, and one that is out of order.
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
printf '<!-- from include/kiln/hook.h -->\n\n    typedef struct kiln_hook kiln_hook;\n    this is not in it\n' >"$work/page.md"
[ "$(snippets "$work/page.md" | grep -c '^[0-9]*: this is not in')" -eq 1 ] && echo "ok a_line_that_is_not_there" || { echo "FAIL a_line_that_is_not_there"; status=1; }
printf '<!-- from include/kiln/hook.h -->\n\n    } kiln_recording;\n    ...\n    typedef struct kiln_hook kiln_hook;\n' >"$work/page.md"
[ "$(snippets "$work/page.md" | grep -c '^[0-9]*: this is not in')" -eq 1 ] && echo "ok lines_out_of_order" || { echo "FAIL lines_out_of_order"; status=1; }
exit $status
