# test_places.sh - a part of the suite where people really clone: a path with blanks and an umlaut, umask 002, no HOME, read-only sources,
# KILN_BUILD elsewhere. `make test-places` is all of it.
cd "$KILN_ROOT" || exit 2
case $KILN_BUILD in *-address | *-undefined | *-thread | *debug*) echo "skip places: the release build only"; exit 0 ;; esac
git rev-parse --git-dir >/dev/null 2>&1 || { echo "skip places: no git here to say what belongs to kiln"; exit 0; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
KILN_BUILT="$KILN_BUILD" scripts/test-places layout/ plugin/test_strangers cli/test_single_file base/ cache/test_store.c workflow/test_include run/test_sweep >"$log" 2>&1
result=$?
tail -n 1 "$log"
if [ $result -eq 0 ] && tail -n 1 "$log" | grep -q '^[0-9]* passed, 0 failed'; then echo "ok places"; else grep -v '^ok ' "$log" | tail -n 40; echo "FAIL places"; exit 1; fi
