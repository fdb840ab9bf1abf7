# test_commands.sh - every command line that README.md, docs/ and the help texts print is run: from a built clone, and from an
# installed prefix with the clone out of reach and an empty HOME. A line that cannot be run is marked in the source of its page
# (commands.awk), with the reason, and is counted.
#   test_commands.sh [clone|installed]      one of the two (test_commands_installed.sh is the second); without: in the clone
mode=${1:-clone}
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
. "$KILN_ROOT/tests/cli/installed.sh"
built="$KILN_ROOT/$KILN_BUILD" fixtures="$KILN_ROOT/tests/docs/fixtures"
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT KILN_MEMORY XDG_CACHE_HOME XDG_DATA_HOME KILN_CACHE MAKEFLAGS MFLAGS MAKELEVEL
install_kiln "$work/usr" || { echo "FAIL install"; exit 1; }

case $built in *-undefined-address) export SAN=undefined,address ;; *-address) export SAN=address ;; *-undefined) export SAN=undefined ;; *-thread) export SAN=thread ;; *) unset SAN ;; esac

pages() { (cd "$KILN_ROOT" && find README.md docs -name '*.md' | LC_ALL=C sort); }

# What a page writes for the reader to fill in.
filled() { # COMMAND MODE
    local c=$1
    [[ $c =~ ^kiln\ (run|check)(\ --.*)*$ ]] && c=${c/kiln ${BASH_REMATCH[1]}/kiln ${BASH_REMATCH[1]} FILE}
    c=${c//<this repository>/\"$KILN_ROOT\"}; c=${c//\/path\/to\//\"\$PWD\"/}; c=${c//\/big\/disk/\"\$PWD\"/disk}
    c=${c//FILE.so/image-gain.so}; c=${c//FILE/workflows\/txt2img.yaml}; c=${c//PATH/workflows\/models\/shapes-sd1}
    c=${c//KEY/\"\$(newest_key)\"}
    case $c in kiln\ samplers*) c=${c//NAME/euler} ;; kiln\ ops*) c=${c//NAME/attention} ;; *) c=${c//NAME/KSampler} ;; esac
    c=${c//[\[\]]/}
    [ "$2" = clone ] || c=${c//build\/release\/kiln/kiln}
    c=${c/make install PREFIX/make install NVCC= PREFIX} # CUDA for all chips takes minutes
    [ "$c" != "make install" ] || c="make install NVCC= PREFIX=\"\$work/local\"" # nothing of this machine is changed
    [[ $c == git\ clone* ]] && c="$c && test -e README.md && cd .." # the next lines are run where it is built already
    printf '%s' "$c"
}

newest_key() { kiln cache ls --json | sed -nE '1s/.*"key": *"([0-9a-f]*)".*/\1/p'; }

# A program that is linked with a library of a sanitizer's build has to be made or started in its way.
cc() { command cc ${SAN:+-fsanitize=$SAN} "$@"; }
python3() {
    case ${SAN:-} in
    *address) ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$(command cc -print-file-name=libasan.so) command python3 "$@" ;;
    thread) LD_PRELOAD=$(command cc -print-file-name=libtsan.so) command python3 "$@" ;;
    *) command python3 "$@" ;;
    esac
}

# What the pages expect to lie in the folder: pictures are made by the commands themselves.
prepare() { # FOLDER MODE
    mkdir -p "$1" "$work/home-$2/ComfyUI/models"
    cp "$fixtures"/* "$1/"
    cp "$work/usr/lib/kiln/plugins/kiln-flow.so" "$1/image-gain.so" # a small one
    [ "$2" = clone ] || return 0
    mkdir -p "$1/build" && ln -s "$built" "$1/build/release"
    for entry in "$KILN_ROOT"/*; do [ "$entry" = "$KILN_ROOT/build" ] || ln -s "$entry" "$1/"; done
}

# Runs the lines of a page in one shell. A line of results each: "ok LINE", "FAIL LINE: STATUS", "marked LINE", "elsewhere LINE".
page() { # LINES MODE
    local kind number text mode=$2 before=""
    local -A reason=() used=()
    while IFS=$'\t' read -r kind number text; do [ "$kind" = mark ] && reason[${text%%$'\t'*}]=${text#*$'\t'}; done <"$1"
    while IFS=$'\t' read -r kind number text <&3; do
        case $kind in
        before) [ -z "$needs_clone" ] || continue
            eval "$(filled "$text" "$mode")" >"$log" 2>&1 3<&- || { echo "FAIL $number: what has to be there for the next line: $text"; cat "$log"; }; continue ;;
        mark) continue ;;
        esac
        if [ -n "${reason[$text]:-}" ]; then used[$text]=1; echo "marked $number: $text"; continue; fi
        if [ "$mode" = installed ] && [[ $text =~ ^(make|scripts/|git|cp|cd) || $text == *build/release/emu* || -n $needs_clone ]]; then echo "elsewhere $number: $text"; continue; fi
        # The plugin is built where the page says; its folder is where the lines after it are run.
        echo "# $name, line $number: $text" >&2 # what is seen of one that takes longer than a test may
        if eval "$(filled "$text" "$mode")" >"$log" 2>&1 3<&- </dev/null; then echo "ok $number: $text"
        else echo "FAIL $number: $text (status $?)"; tail -n 12 "$log"; fi
    done 3<"$1"
    for text in "${!reason[@]}"; do [ -n "${used[$text]:-}" ] || echo "FAIL 0: marked as not run, but not on the page: $text"; done
}

# Every page of a mode has its own folder and shell, and is run with what pages before it have kept, but for the page on the cache.
all_pages() { # MODE
    local mode=$1 name file
    for name in $(pages) help; do
        file="$work/lines/$name" dir="$work/$mode/$name"
        mkdir -p "$(dirname "$file")" "$work/log"
        if [ "$name" = help ]; then cp "$work/help.lines" "$file"; else awk -f "$KILN_ROOT/tests/docs/commands.awk" "$KILN_ROOT/$name" >"$file"; fi
        prepare "$dir" "$mode"
    done
}

# ---- help texts: their examples, and what they print
"$built/kiln" help >"$work/help.txt"
for command in $(sed -nE 's/^  ([a-z-]+) .*/\1/p' "$work/help.txt"); do "$built/kiln" "$command" --help | sed -n '/^examples:/,$p'; done |
    awk -v help=1 -f "$KILN_ROOT/tests/docs/commands.awk" >"$work/help.lines"
printf 'before\t0\tkiln run workflows/txt2img.yaml --set steps=1 --out pictures; kiln run workflows/txt2img.yaml\n' | cat - "$work/help.lines" >"$work/help.new" && mv "$work/help.new" "$work/help.lines"

run_pages() { # MODE: with PATH, HOME and what else the mode has
    local mode=$1 name log
    for name in $(cd "$work/lines" && find . -type f | sed 's|^\./||' | LC_ALL=C sort); do
        log="$work/log/last.txt"
        needs_clone=""; [ "$mode" = installed ] && [[ $name == docs/writing-a*.md || $name == docs/plugins.md ]] && needs_clone=1
        export KILN_CACHE="$work/kept"; [ "$name" = docs/cache.md ] && KILN_CACHE="$work/kept-$mode"
        (cd "$work/$mode/$name" && page "$work/lines/$name" "$mode") >"$work/log/$mode-${name//\//-}"
    done
}
export work fixtures KILN_ROOT KILN_BUILD

verdict() { # MODE
    local mode=$1 name n marked elsewhere
    for name in $(cd "$work/lines" && find . -type f | sed 's|^\./||' | LC_ALL=C sort); do
        log="$work/log/$mode-${name//\//-}"
        n=$(grep -c '^ok ' "$log") marked=$(grep -c '^marked ' "$log") elsewhere=$(grep -c '^elsewhere ' "$log")
        if grep -q '^FAIL ' "$log"; then grep -v '^ok \|^marked \|^elsewhere ' "$log" | sed 's/^FAIL /  wrong at line /'; echo "FAIL ${mode}_$name"; status=1
        elif [ $((n + marked + elsewhere)) -gt 0 ]; then echo "ok ${mode}_$name ($n run, $marked marked as not run, $elsewhere want a clone)"; fi
    done
}

all_pages "$mode"
if [ "$mode" = clone ]; then
    (
        export HOME="$work/home-clone" PATH="$built:$PATH" PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" LD_LIBRARY_PATH="$work/usr/lib" KILN_BUILD=build/release
        case $built in *debug*) export DEBUG=1 ;; esac
        run_pages clone
    )
    verdict clone
    exit $status
fi
rm -rf "$work/home" && cp -r "$work/home-installed" "$work/home"
# shellcheck disable=SC2016
{ declare -f page filled newest_key run_pages cc python3; echo 'PATH="$work/usr/bin:$PATH"; export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" LD_LIBRARY_PATH="$work/usr/lib"; run_pages installed'; } >"$work/inside.sh"
without_clone env work="$work" bash "$work/inside.sh"; result=$?
if [ $result -eq 125 ]; then echo "skip installed: mounts are not allowed here"; else verdict installed; fi
exit $status
