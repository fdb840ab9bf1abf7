# test_option_table.sh - options, their combinations and endings of files, a line of tests/cli/option_table each: exit status, words that are said, command.
# `-` in place of the words: none are asked for. A line may name a file that must be left behind it, in the fourth column.
. "$KILN_ROOT/tests/cli/head.sh"
here="$PWD/tests/cli" models="$PWD/workflows/models"
cd "$work" || exit 2
unset KILN_MODELS KILN_INPUT KILN_PLUGIN_PATH KILN_MEMORY KILN_ALIASES COLUMNS
export HOME="$work/home" KILN_CACHE=off KILN_CONFIG=off shapes="$models/shapes-sd1" loras="$models/loras" root="$KILN_ROOT" build="$KILN_ROOT/$KILN_BUILD"
mkdir -p home/.config/kiln empty/in "of xdg/kiln" readonly
cat >flow.yaml <<'Y'
params: {width: 16, name: k}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  turned: {class_type: ImageInvert, inputs: {image: [empty, 0]}}
  save: {class_type: SaveImage, inputs: {images: [turned, 0], filename_prefix: "${name}"}}
Y
sed 's/^params/matrix: {width: [16, 24]}\nparams/' flow.yaml >matrix.yaml
cat >two.yaml <<'Y'
params: {height: 16}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 16, height: "${height}"}}
  one: {class_type: SaveImage, inputs: {images: [empty, 0]}}
  load: {class_type: LoadImage, inputs: {image: late.png}}
  two: {class_type: SaveImage, inputs: {images: [load, 0]}}
Y
sed 's/ImageInvert/ImageInvrt/' flow.yaml >faulty.yaml
sed 's/width: "\${width}"/width: wide/' flow.yaml >not_a_number.yaml
echo 'out: of-xdg' >"of xdg/kiln/config.yaml"
# In a sandbox LeakSanitizer cannot read what it is to leave out.
kiln() { case " $* " in *" --sandbox "*) ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" command "$kiln" "$@" ;; *) command "$kiln" "$@" ;; esac; }
kiln run flow.yaml -q -o picture.png >/dev/null || exit 2
export -f kiln; export kiln
n=0
while IFS=$'\t' read -r want words line left; do
    n=$((n + 1))
    case $KILN_BUILD:$line in *-address:*"ulimit -v"*) echo "skip line_$n: a sanitizer wants more addresses"; continue ;; esac
    bash -c "$line" >said 2>&1 </dev/null; got=$?
    if [ "$got" != "$want" ]; then bad "line_$n" "$line: exit status $got, wanted $want: $(head -n 3 said)"
    elif [ "$words" != - ] && ! grep -qF -- "$words" said; then bad "line_$n" "$line: does not say '$words' but: $(head -n 3 said)"
    elif [ -n "$left" ] && [ ! -s "$left" ]; then bad "line_$n" "$line: has left no $left"
    else ok "line_$n"; fi
    rm -rf out
done < <(grep -v '^#' "$here/option_table" | grep .)
check there_are_a_hundred [ "$n" -ge 100 ]
exit "$status"
