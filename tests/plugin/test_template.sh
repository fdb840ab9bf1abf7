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
make -s -C "$KILN_ROOT" install PREFIX="$prefix" DEBUG="$(case $KILN_BUILD in *debug*) echo 1 ;; esac)" \
    SAN="$(case $KILN_BUILD in *-address) echo address ;; *-undefined) echo undefined ;; *-thread) echo thread ;; esac)" >"$work/install.txt" 2>&1
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

# An object type of a plugin's own, through the cache: the second run takes the palette from there.
cat >palette.yaml <<'Y'
params: { height: { default: 1 } }
nodes:
  colours: { class_type: ExamplePalette, inputs: { colours: 2 } }
  picture: { class_type: ExamplePaletteImage, inputs: { palette: [colours, 0], height: "${height}" } }
  save: { class_type: ExampleSavePPM, inputs: { images: [picture, IMAGE], filename_prefix: p } }
Y
"$kiln" run palette.yaml --plugins examples --out p1 --cache store -q >run.txt 2>&1 && "$kiln" run palette.yaml --plugins examples --out p2 --cache store --set height=2 --events events -q >run.txt 2>&1
result=$?; [ $result -eq 0 ] || cat run.txt
verdict palettes_are_drawn $result
grep '"node": "colours"' events | grep -q '"from": "cache"'; verdict the_palette_comes_from_the_cache $?
printf 'P6\n2 2\n255\n\200\0\0\377\0\0\200\0\0\377\0\0' >wanted.ppm
cmp p2/p_00001_.ppm wanted.ppm; verdict with_its_colours $?
mkdir twice && cp examples/palette.so twice/a.so && sed 's/org\.example\.palette/org.example.palettf/; s/ExamplePalette/ExamplePalettf/g' examples/palette.c >twice/b.c && make -s -C twice -f ../examples/Makefile >/dev/null 2>&1
"$kiln" plugins --plugins twice >plugins.txt 2>&1; grep -q "stored type 'EXAMPLE_PALETTE' is already registered" plugins.txt; result=$?; [ $result -eq 0 ] || cat plugins.txt
verdict a_stored_type_has_one_owner $result
exit $status
