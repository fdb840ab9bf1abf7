# test_config_sections.sh - the section of a command in the configuration file is taken once and after what stands for all commands: lists are as long as
# they are written, an option of the section wins, and a command without a section sees none of it.
. "$KILN_ROOT/tests/cli/head.sh"
unset KILN_MODELS KILN_INPUT KILN_PLUGIN_PATH KILN_MEMORY KILN_ALIASES
export KILN_CONFIG="$work/config.yaml" HOME="$work"
cat >"$work/flow.yaml" <<'Y'
params: {color: 1}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 1, color: "${color}"}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: k}}
Y
config() { printf '%s\n' "$@" >"$work/config.yaml"; }
looked() { "$kiln" models | sed -n 's/^looked in //p' | grep -c "^$work/m"; }

config 'run: {over: [color=1..3]}'
expect an_axis_of_the_section 0 "3 rows: 6 to run" "$kiln" run "$work/flow.yaml" --no-cache --dry-run
check other_commands_have_none_of_it "$kiln" check "$work/flow.yaml"

mkdir -p "$work/m1" "$work/m2"
config "models: {models: [$work/m1]}"
same a_folder_of_the_section "$(looked)" 1
config "run: {models: [$work/m1]}"
same not_of_another_section "$(looked)" 0
config "models: {models: [$work/m1]}" "run: {models: [$work/m2]}"
same the_right_section "$("$kiln" models | sed -n "s|^looked in $work/||p" | paste -sd' ')" m1

config "run: {out: $work/section}" "out: $work/all"
expect the_section_wins_wherever_it_stands 0 "$work/section/k_00001_.png" "$kiln" run "$work/flow.yaml" --no-cache
exit $status
