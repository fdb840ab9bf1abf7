# test_files_change.sh - files that change while a run reads them: overwritten in place, cut short, replaced; between any two looks that kiln
# takes at them (touch.so), and from outside while it samples. Whatever happens, a run gives the right picture or ends with an error
# that names the file and leaves none; and once the file is as it was the next run with the same cache gives the right picture.
. "$KILN_ROOT/tests/cli/head.sh"
touch="$work/touch.so" # a list of names to preload is cut at blanks, which the clone's may have
cp "$KILN_BUILD/tests/torture/touch.so" "$touch" 2>/dev/null
cp -r workflows/models "$work/models"
cp -r workflows/models "$work/true"
export KILN_MODELS="$work/models" OMP_WAIT_POLICY=passive
"$kiln" run workflows/txt2img.yaml -q --no-cache --set steps=1 --set empty.width=64 --set empty.height=64 --out "$work/seed" >/dev/null || exit 2
cp "$work/seed/kiln_00001_.png" "$work/picture.png"; cp "$work/picture.png" "$work/picture.true.png"
"$kiln" run workflows/txt2img.yaml -q --no-cache --set steps=1 --set seed=2 --set empty.width=72 --set empty.height=64 --out "$work/seed2" >/dev/null || exit 2
cp "$work/seed2/kiln_00001_.png" "$work/other.png"
export KILN_INPUT="$work"
# In place, as the user who notices would do it.
put_back() {
    if [ "$1" = picture.png ]; then cp "$work/picture.true.png" "$work/picture.png"
    else cp "$work/true/$1" "$work/models/$1"; fi
}
made_in() { find "$1" -name '*.png' 2>/dev/null | head -n 1; }

unet=shapes-sd1/unet/diffusion_pytorch_model.safetensors
text=shapes-sd1/text_encoder/model.safetensors
vae=shapes-sd1/vae/diffusion_pytorch_model.safetensors
vocab=shapes-sd1/tokenizer/vocab.json
lora=loras/shapes-night.safetensors

draw() { "$kiln" run "$@" -q; }
small="--set steps=2 --set empty.width=64 --set empty.height=64"

# ---- between any two looks

# One change after the k-th look; 1 when something is wrong with what came of it, with a word in $why.
changed_at() { # K HOW FILE RIGHT WORKFLOW SETTINGS...
    local k=$1 how=$2 file=$3 right=$4 end; shift 4
    rm -rf "$work/cache" "$work/cut" "$work/after"
    TOUCH_PATH="/$file" TOUCH_AT=$k TOUCH_HOW=$how LD_PRELOAD="$touch" draw "$@" --cache "$work/cache" --out "$work/cut" >/dev/null 2>"$work/log"; end=$?
    local made other=none; made=$(made_in "$work/cut")
    if [ $end -eq 0 ] && [ "$(pixels "$made")" != "$right" ]; then # it may have changed before its content was looked at: then this is the picture of that
        draw "$@" --no-cache --out "$work/after" >/dev/null 2>&1
        other=$(pixels "$(made_in "$work/after")"); rm -rf "$work/after"
    fi
    put_back "$file"
    if [ $end -ge 126 ]; then why="look $k: status $end: $(tail -n 2 "$work/log")"; return 1; fi
    if [ $end -eq 0 ] && [ "$(pixels "$made")" != "$right" ] && [ "$(pixels "$made")" != "$other" ]; then
        why="look $k: status 0 and a wrong picture"; return 1
    fi
    if [ $end -ne 0 ] && [ -n "$made" ]; then why="look $k: status $end and a picture"; return 1; fi
    if [ $end -ne 0 ] && ! grep -qF "${file##*/}" "$work/log"; then why="look $k: does not name the file: $(tail -n 2 "$work/log")"; return 1; fi
    [ $end -eq 0 ] || refused=$((refused + 1))
    draw "$@" --cache "$work/cache" --out "$work/after" >/dev/null 2>"$work/log" || { why="look $k: the next run failed: $(tail -n 2 "$work/log")"; return 1; }
    if [ "$(pixels "$(made_in "$work/after")")" != "$right" ]; then why="look $k: the next run hands out a wrong picture"; return 1; fi
    return 0
}

# At places further and further apart, and at the last one; all of them takes hours. In full (KILN_TEST_FULL=1, make torture) a few dozen.
places() { # LOOKS
    if [ "$1" -le 12 ]; then seq 1 "$1" # so few are all tried
    elif [ "${KILN_TEST_FULL:-0}" = 1 ]; then seq 1 8; awk -v n="$1" 'BEGIN { for (k = 9; k < n; k = int(k * 1.4)) print k }'
    else printf '%s\n' 3 6 $(($1 / 2)); fi
    echo "$1"
}
between_looks() { # NAME HOW FILE WORKFLOW SETTINGS...
    local name=$1 how=$2 file=$3 right looks k tried=0 why=""; shift 3
    refused=0
    rm -rf "$work/whole" "$work/looks"
    TOUCH_PATH="/$file" TOUCH_AT=0 TOUCH_COUNT="$work/looks" LD_PRELOAD="$touch" draw "$@" --no-cache --out "$work/whole" >/dev/null 2>"$work/log"
    looks=$(cat "$work/looks" 2>/dev/null || echo 0)
    right=$(pixels "$(made_in "$work/whole")")
    for k in $(places "$looks" | sort -nu); do
        changed_at "$k" "$how" "$file" "$right" "$@" || break
        tried=$((tried + 1))
    done
    if [ -n "$why" ]; then bad "$name" "$why"
    elif [ $tried -eq 0 ] || [ $refused -eq 0 ]; then bad "$name" "$looks looks, $tried tried, $refused refused: nothing was tested"
    else ok "$name"; fi
}

if [ -e "$touch" ]; then
    between_looks unet_written write $unet workflows/txt2img.yaml $small
    between_looks unet_written_with_a_budget write $unet workflows/txt2img.yaml $small --memory 9M
    between_looks unet_cut cut $unet workflows/txt2img.yaml $small --memory 9M
    between_looks unet_replaced replace $unet workflows/txt2img.yaml $small --memory 9M
    between_looks text_encoder_written write $text workflows/txt2img.yaml $small
    between_looks vae_written write $vae workflows/txt2img.yaml $small
    between_looks vocabulary_cut cut $vocab workflows/txt2img.yaml $small
    between_looks lora_written write $lora workflows/lora.yaml $small
    TOUCH_WITH="$work/other.png" between_looks picture_written copy picture.png workflows/img2img.yaml --set image=picture.png --set sampler.steps=2
else
    echo "skip files_change_between_looks: built under a sanitizer, which stands in the shim's place"
fi

# ---- from outside, while it samples

begun() { grep -qs '"what": "step"' "$work/events"; }
shift_bytes() { dd if="$work/true/$1" of="$work/models/$1" bs=1M skip=9 seek=3 count=4 conv=notrunc status=none; }
cut_short() { truncate -s 1M "$work/models/$1"; }
replaced() { cp "$work/true/$1" "$work/models/$1.new"; shift_bytes "$1.new" 2>/dev/null; mv "$work/models/$1.new" "$work/models/$1"; }
# Another's touch that is undone before the end: the times that a program can set are as they were.
there_and_back() { cp -p "$work/models/$1" "$work/kept"; shift_bytes "$1"; sleep 0.1; cp -p "$work/kept" "$work/models/$1"; }

changed_while() { # NAME HOW FILE SETTINGS...
    local name=$1 how=$2 file=$3 end pid right; shift 3
    rm -rf "$work/cache" "$work/cut" "$work/after" "$work/whole" "$work/events"
    draw workflows/txt2img.yaml "$@" --no-cache --out "$work/whole" >/dev/null 2>"$work/log"
    right=$(pixels "$(made_in "$work/whole")")
    draw workflows/txt2img.yaml "$@" --cache "$work/cache" --save-state 0.000001 --out "$work/cut" --events "$work/events" >/dev/null 2>"$work/log" & pid=$!
    for _ in $(seq 2000); do begun && break; sleep 0.005; done
    "$how" "$file"
    wait $pid; end=$?
    put_back "$file"
    if [ $end -ne 1 ] && [ $end -ne 3 ]; then bad "$name" "status $end: $(tail -n 2 "$work/log")"; return; fi
    if [ -n "$(made_in "$work/cut")" ]; then bad "$name" "left a picture"; return; fi
    if ! grep -qF "${file##*/}" "$work/log"; then bad "$name" "does not name the file: $(tail -n 2 "$work/log")"; return; fi
    draw workflows/txt2img.yaml "$@" --cache "$work/cache" --out "$work/after" >/dev/null 2>"$work/log"
    if [ "$(pixels "$(made_in "$work/after")")" = "$right" ]; then ok "$name"; else bad "$name" "the next run: another picture"; fi
}

long="--set steps=24"
changed_while sampling_unet_written shift_bytes $unet $long
changed_while sampling_unet_written_with_a_budget shift_bytes $unet $long --memory 9M
changed_while sampling_unet_written_and_put_back there_and_back $unet $long --memory 9M
changed_while sampling_unet_cut cut_short $unet $long --memory 9M
changed_while sampling_unet_replaced replaced $unet $long --memory 9M
changed_while sampling_vae_cut cut_short $vae $long

# ---- a sweep: rows that read it when it was touched fail, later ones open it anew, and what is there at the end is right. (Its content is
# the same all along: rows whose keys were made while it was another would rightly be of the other.)

rows() { draw workflows/txt2img.yaml --set steps=1 --set empty.width=64 --set empty.height=64 --over seed=1..66 --memory 8M "$@"; }
pictures() { for file in "$1"/*.png; do pixels "$file"; done | sort; }
rm -rf "$work/whole" "$work/cut" "$work/cache"
rows --no-cache --out "$work/whole" >/dev/null 2>"$work/log"
rows --cache "$work/cache" --out "$work/cut" >/dev/null 2>"$work/log" & pid=$!
for _ in $(seq 2000); do [ "$(find "$work/cut" -name '*.png' 2>/dev/null | wc -l)" -ge 5 ] && break; sleep 0.005; done
chmod 600 "$work/models/$unet"
wait $pid; end=$?
right=$(pictures "$work/whole")
if [ $end -ne 3 ]; then bad sweep_some_rows_fail "status $end: $(tail -n 2 "$work/log")"
elif ! grep -q "${unet##*/}: changed" "$work/log"; then bad sweep_some_rows_fail "does not name the file: $(tail -n 2 "$work/log")"
elif [ -n "$(comm -13 <(echo "$right") <(pictures "$work/cut"))" ]; then bad sweep_some_rows_fail "a wrong picture"
else ok sweep_some_rows_fail; fi
rows --cache "$work/cache" --out "$work/cut" >/dev/null 2>"$work/log"; end=$?
if [ $end -eq 0 ] && [ "$(pictures "$work/cut")" = "$right" ]; then ok sweep_is_completed; else bad sweep_is_completed "status $end: $(tail -n 2 "$work/log")"; fi
exit $status
