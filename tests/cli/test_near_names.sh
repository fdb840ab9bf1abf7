# test_near_names.sh - a workflow that is not there: the name that is nearest to it, where it was looked for.
. "$KILN_ROOT/tests/cli/head.sh"
expect_in=log
mkdir -p "$work/here/below"
printf 'nodes:\n  n: {class_type: EmptyImage}\n' | tee "$work/here/a_heron_at_dusk.yaml" "$work/here/below/other.yaml" >/dev/null
cd "$work/here" || exit 2
expect of_this_folder 2 "a_heron_at_dsk.yaml: there is no such file; did you mean 'a_heron_at_dusk.yaml'?" "$kiln" run a_heron_at_dsk.yaml
expect of_one_below 2 "did you mean 'below/other.yaml'?" "$kiln" run below/othe.yaml
expect by_its_whole_path 2 "did you mean '$work/here/a_heron_at_dusk.yaml'?" "$kiln" run "$work/here/a_heron_at_duks.yaml"
expect nothing_is_near 2 "below/zzzzzzzzzz.yaml: there is no such file" "$kiln" run below/zzzzzzzzzz.yaml
check and_nothing_is_named test -z "$(grep "did you mean" "$work/log")"
expect no_such_folder 2 "nowhere/a_heron_at_dusk.yaml" "$kiln" run nowhere/a_heron_at_dusk.yaml
exit $status
