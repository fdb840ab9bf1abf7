# test_template.sh - a stranger's day: kiln is installed, the template and the examples are copied away from the tree, built
# through kiln.pc alone, loaded and run.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi
}
unset MAKEFLAGS MFLAGS MAKELEVEL
prefix="$work/usr"
make -s -C "$KILN_ROOT" install NVCC= PREFIX="$prefix" DEBUG="$(case $KILN_BUILD in *debug*) echo 1 ;; esac)" \
    SAN="$(case $KILN_BUILD in *-undefined-address) echo undefined,address ;; *-address) echo address ;; *-undefined) echo undefined ;; *-thread) echo thread ;; esac)" >"$work/install.txt" 2>&1
installed=$?
[ $installed -eq 0 ] || tail -n 5 "$work/install.txt"
verdict install "$installed"
[ $installed -eq 0 ] || exit 1
cp -r "$KILN_ROOT/plugins/template" "$KILN_ROOT/plugins/examples" "$work/"
cd "$work" || exit 2
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH DEBUG SAN
kiln="$prefix/bin/kiln"

[ "$(wc -l <template/Makefile)" -le 12 ]; verdict the_makefile_has_twelve_lines $?
make -s -C template; verdict template_builds $?
make -s -C examples; verdict examples_build $?
[ -z "$(readelf -d template/image-gain.so | grep NEEDED | grep -v 'libc\.')" ]; verdict the_template_links_nothing_of_ours $?

"$kiln" nodes ImageGain --plugins template >nodes.txt 2>&1 && grep -q 'a number from 0 to 16; default 1' nodes.txt
result=$?; [ $result -eq 0 ] || cat nodes.txt
verdict template_is_listed $result
make -s -C template install && "$kiln" nodes ImageGain >/dev/null; verdict template_installs $?
"$kiln" nodes KSampler --plugins examples | grep -q 'example_midpoint'; verdict the_sampler_is_in_the_list $?
drawn=$("$kiln" run "$prefix/share/kiln/workflows/custom_sampling.yaml" --plugins examples --set sampler=example_midpoint --set steps=2 --out sampled -q 2>run.txt)
[ -s "$drawn" ]; result=$?; [ $result -eq 0 ] || cat run.txt
verdict the_sampler_draws_through_KSamplerSelect $result
# The sampler's plugin is not the node's: another build of it must not find what the one before made.
sampled() {
    "$kiln" run "$prefix/share/kiln/workflows/custom_sampling.yaml" --plugins examples --set sampler=example_midpoint --set steps=2 --out sampled --cache kept1 --events events -q >run.txt 2>&1 || cat run.txt
    grep -c '"from": "computed"' events
}
first=$(sampled); second=$(sampled)
sed 's/double a = (middle - now)/double a = 0.5 * (middle - now)/' examples/midpoint.c >other.c && cp other.c examples/midpoint.c && make -s -C examples
third=$(sampled)
[ "$second" -lt "$first" ] && [ "$third" -gt "$second" ]; verdict another_build_of_a_sampler_misses $?
"$kiln" run "$prefix/share/kiln/workflows/custom_sampling.yaml" --plugins examples --set sampler=example_midpint --set steps=2 --out sampled -q >run.txt 2>&1
grep -q "did you mean 'example_midpoint'" run.txt; verdict a_misspelt_one_is_told_its_name $?

cat >gain.yaml <<'Y'
nodes:
  picture: { class_type: ExampleGradient, inputs: { width: 3, height: 2, blue: 0.25 } }
  brighter: { class_type: ImageGain, inputs: { image: [picture, IMAGE], gain: 2 } }
  save: { class_type: ExampleSavePPM, inputs: { images: [brighter, IMAGE], filename_prefix: sub/gain } }
Y
"$kiln" run gain.yaml --plugins examples --out out >run.txt 2>&1
result=$?; [ $result -eq 0 ] || cat run.txt
verdict workflow_runs $result
# Twice 0, 0.5, 1 to the right, twice 0 and 1 downwards, twice 0.25: cut at white.
printf 'P6\n3 2\n255\n\0\0\200\377\0\200\377\0\200\0\377\200\377\377\200\377\377\200' >wanted.ppm
cmp out/sub/gain_00001_.ppm wanted.ppm; verdict the_picture_is_right $?
"$kiln" run gain.yaml --plugins examples --out out >run.txt 2>&1 && cmp out/sub/gain_00002_.ppm wanted.ppm; verdict the_next_number_is_taken $?
[ "$(find out -type f | wc -l)" -eq 2 ]; verdict nothing_else_is_left $?

# ---- an object type of the plugin's own, kept between processes (kiln.store/1)
cat >palette.yaml <<'Y'
nodes:
  picture: { class_type: ExampleGradient, inputs: { width: 3, height: 2, blue: 0 } }
  colours: { class_type: ExamplePalette, inputs: { colours: 2, green: 0.5, blue: 0 } }
  painted: { class_type: ExampleApplyPalette, inputs: { image: [picture, IMAGE], palette: [colours, PALETTE] } }
  save: { class_type: ExampleSavePPM, inputs: { images: [painted, IMAGE], filename_prefix: palette } }
Y
# paint ARGS...: the names of the nodes that were computed, in order; the picture is p/palette_00001_.ppm
paint() {
    rm -rf p
    "$kiln" run palette.yaml --plugins examples --cache kept --out p --events events "$@" >run.txt 2>&1 || cat run.txt
    sed -nE 's/.*"node_done".*"node": "([^"]*)".*"from": "computed".*/\1/p' events | sort | tr '\n' ' '
}
[ "$(paint)" = "colours painted picture save " ]; verdict the_palette_is_made $?
# Black or (1, 0.5, 0), whichever is nearer: only (0, 0, 0) of 0, 0.5, 1 to the right and 0, 1 downwards is black and (0, 1, 0)
# and (0.5, 0, 0) are nearer to black too (distances 1 and 0.25 against 1.25 and 0.5).
printf 'P6\n3 2\n255\n\0\0\0\0\0\0\377\200\0\0\0\0\377\200\0\377\200\0' >wanted.ppm
cmp p/palette_00001_.ppm wanted.ppm; verdict the_palette_is_applied $?
[ "$(paint)" = "save " ] && cmp p/palette_00001_.ppm wanted.ppm; verdict the_whole_is_kept $?
# Another picture: what is painted is computed anew, with the palette that an earlier process made.
[ "$(paint --set picture.blue=0.1)" = "painted picture save " ] && cmp p/palette_00001_.ppm wanted.ppm; verdict the_palette_comes_back_from_the_cache $?
"$kiln" cache ls --cache kept | grep -q ExamplePalette; verdict the_palette_is_listed $?
# Another revision of the stored form does not read it; the plugin's content differs too, as it always does then.
sed "/kiln_stored_type stored = /,/^};/ s/revision = 1/revision = 2/" examples/palette.c >palette2.c && cp palette2.c examples/palette.c && make -s -C examples
[ "$(paint --set picture.blue=0.1)" = "colours painted save " ]; verdict another_build_makes_its_own $?
# A second plugin with that type is refused, and both are named.
mkdir twice && sed 's/org\.example\.palette/org.example.copy/; s/"Example\(Apply\)\?Palette"/"Copy\1Palette"/g' examples/palette.c >twice/copy.c && cp examples/Makefile twice/ && make -s -C twice
"$kiln" plugins --plugins examples:twice >run.txt 2>&1
grep -q 'PALETTE.*org\.example\.palette' run.txt && grep -q 'org\.example\.copy\|copy\.so' run.txt; result=$?; [ $result -eq 0 ] || cat run.txt
verdict two_plugins_with_one_stored_type_are_named $result
"$kiln" check-plugin examples/palette.so >run.txt 2>&1; result=$?; [ $result -eq 0 ] || cat run.txt
verdict check_plugin_finds_nothing $result
exit $status
