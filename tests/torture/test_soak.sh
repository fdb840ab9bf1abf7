# test_soak.sh - `make soak` for some seconds, and that it finds what it looks for: a kiln that draws something else once in a while.
cd "$KILN_ROOT" || exit 2
[ -e "$KILN_BUILD/tests/torture/weather.so" ] || { echo "skip soak: built under a sanitizer, which stands in the place of what it preloads"; exit 0; }
command -v python3 >/dev/null || { echo "skip soak: no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 5 "$work/said"; echo "FAIL $1"; status=1; fi; }
scripts/soak --minutes 0.08 --processes 3 --folder "$work" >"$work/said" 2>&1 && grep -qE '^[1-9][0-9]* runs in .*, 0 wrong' "$work/said"; verdict nothing_goes_wrong_for_five_seconds $?
[ -z "$(ls -d "$work"/kiln-soak-* 2>/dev/null)" ]; verdict it_leaves_nothing $?
# A kiln that now and then says 0 and draws nothing.
cat >"$work/kiln" <<END
#!/bin/sh
case "\$*" in run*--cache\ *) [ \$((\$\$ % 3)) -ne 0 ] || exit 0 ;; esac
exec "$KILN_ROOT/$KILN_BUILD/kiln" "\$@"
END
chmod +x "$work/kiln"
scripts/soak --minutes 0.04 --processes 3 --folder "$work" --other "$work/kiln" >"$work/said" 2>&1; [ $? -eq 1 ] && grep -q '^WRONG: other bytes' "$work/said"; verdict a_missing_picture_is_found $?
scripts/soak --other "$work/none" >"$work/said" 2>&1; [ $? -eq 1 ] && grep -q 'cannot be run; build it with' "$work/said"; verdict a_kiln_that_is_not_there $?
exit $status
