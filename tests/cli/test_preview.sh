# test_preview.sh - what a sampling looks like so far: a PNG that is replaced whole, events, and pictures on terminals that show them.
. "$KILN_ROOT/tests/cli/head.sh"
draw() { "$kiln" run workflows/txt2img.yaml --set steps=6 "$@"; }
expect without 0 "kiln_00001_.png" draw -q --out "$work/plain"
expect with 0 "kiln_00001_.png" draw -q --out "$work/seen" --preview "$work/p.png" --events "$work/events"
check the_picture_is_the_same cmp "$work/plain/kiln_00001_.png" "$work/seen/kiln_00001_.png"
check a_png [ "$(head -c 8 "$work/p.png" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ]
check an_event_a_step [ "$(grep -c '^{"event": "preview".*"width": [0-9]*, "height": [0-9]*, "rgb": "[A-Za-z0-9+/]' "$work/events")" = 6 ]
expect every_fourth 0 "" draw -q --out "$work/seen" --preview "$work/p4.png" --preview-every 4 --events "$work/events"
check and_the_last [ "$(grep -c '^{"event": "preview"' "$work/events")" = 2 ]
expect no_events_without_it 0 "" draw -q --out "$work/seen" --events "$work/events"
check none [ "$(grep -c '^{"event": "preview"' "$work/events")" = 0 ]
expect no_rest_of_a_write 0 "" bash -c "! ls '$work' | grep -F tmp"
expect a_folder_that_is_not_there 0 "warning: --preview: " draw -q --out "$work/seen" --preview "$work/nowhere/p.png"
check said_once [ "$(grep -c 'warning: --preview' "$work/log")" = 1 ]
expect a_name_that_is_no_png 2 "give a name that ends in .png" draw --preview "$work/p.jpg"
expect every_of_nothing 2 "--preview-every belongs to --preview" draw --preview-every 3
expect every_none 2 "--preview-every 0: it is a number from 1" draw --preview "$work/p.png" --preview-every 0
expect of_a_dry_run 2 "nothing is run" draw --dry-run --preview "$work/p.png"
rm -f "$work/p.png"
expect a_kept_result_needs_no_sampling 0 "" env KILN_CACHE="$work/kept" "$kiln" run workflows/txt2img.yaml --set steps=6 -q --out "$work/seen"
expect and_has_no_preview 0 "" env KILN_CACHE="$work/kept" "$kiln" run workflows/txt2img.yaml --set steps=6 -q --out "$work/seen" --preview "$work/p.png"
check nothing_there [ ! -e "$work/p.png" ]

if command -v python3 >/dev/null; then
    # Its colours are those of the picture: the mean of each cell's pixels, up to what a linear map of the latent can say.
    cat >"$work/near.py" <<'P'
import sys
sys.argv = ["", sys.argv[1], sys.argv[2]]
exec(open("tests/cli/near_pixels.py").read().split("a, b = ")[0])
size = lambda path: int.from_bytes(open(path, "rb").read()[16:20], "big")
def cells(path):
    all, w = rows(path), size(path)
    by = w // 16
    return [sum(all[3 * ((y * by + j) * w + x * by + i) + k] for j in range(by) for i in range(by)) / by ** 2 for y in range(16) for x in range(16) for k in range(3)]
a, b = cells(sys.argv[1]), cells(sys.argv[2])
ma, mb = sum(a) / len(a), sum(b) / len(b)
r = sum((x - ma) * (y - mb) for x, y in zip(a, b)) / (sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b)) ** .5
error = (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** .5
print("correlation %.3f, error %.1f of 255" % (r, error))
sys.exit(not (r > 0.85 and error < 40)) # the fit's error is 0.194 of -1..1, 25 of 255 (scripts/latent_colours.py)
P
    for pair in "txt2img steps=6" "sdxl steps=8"; do
        set -- $pair
        "$kiln" run "workflows/$1.yaml" --set "$2" -q --out "$work/$1" --preview "$work/$1.png" >"$work/stdout" 2>"$work/log"
        python3 "$work/near.py" "$work/$1.png" "$(head -n 1 "$work/stdout")" >>"$work/log"; verdict "colours_of_$1" $?
    done
    terminal() { env -u KITTY_WINDOW_ID TERM=xterm-256color python3 tests/cli/on_terminal.py "$@"; }
    expect on_a_terminal_with_sixels 0 "" terminal --answer '\x1b[?62;4;22c' "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    check it_is_the_preview python3 tests/cli/terminal_picture.py "$work/screen" "$work/p.png" 26 # half a step of the cube's 51, rounded
    check in_one_place [ "$(grep -ao $'\0338' "$work/screen" | wc -l)" = 6 ] && check all_of_them_above_one_line [ "$(grep -aoE $'\033\\[[0-9]+A' "$work/screen" | sort -u | wc -l)" = 1 ]
    expect on_kitty 0 "" env TERM=xterm-kitty KITTY_WINDOW_ID=1 python3 tests/cli/on_terminal.py "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    check it_is_the_preview_too python3 tests/cli/terminal_picture.py "$work/screen" "$work/p.png" 0
    expect kitty_by_its_answer 0 "" terminal --answer '\x1b_Gi=31;OK\x1b\\\x1b[?62c' "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    check kitty_drew grep -qa '_Ga=T,f=100' "$work/screen"
    expect a_terminal_without_pictures 0 "" terminal --answer '\x1b[?62;22c' "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    check draws_none bash -c "! grep -qa \$'\\033Pq\\|_Ga=T' '$work/screen'"
    expect a_silent_terminal 0 "" terminal "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    expect a_dumb_terminal 0 "" env TERM=dumb python3 tests/cli/on_terminal.py "$work/screen" "$kiln" run workflows/txt2img.yaml --set steps=6 --out "$work/seen" --preview "$work/p.png"
    check is_not_asked bash -c "! grep -qa \$'\\033' '$work/screen'"
else
    echo "skip terminals: no python3"
fi
exit $status
