# test_signals.sh - a run that is asked to stop stops, also when its node does not listen: the first SIGINT, SIGTERM or SIGHUP asks, the second
# ends the process at once, with nothing half done left behind and the store sound. And writes that fail with a signal elsewhere (SIGPIPE,
# SIGXFSZ) are errors with a name.
. "$KILN_ROOT/tests/cli/head.sh"
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null; rm -rf "$work"' EXIT
unset KILN_CACHE
umask 022
export XDG_CACHE_HOME="$work/xdg" KILN_TEST_MARK="$work/mark"

mkdir "$work/plugins" "$work/hangs"
cat >"$work/stop.c" <<'C'
/* Nodes that do not come back: TestStop says how. */
#include "kiln/files.h"
#include "kiln/plugin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *how;
    int64_t n;
} params;

static const kiln_files_api *files;
static const kiln_param param[] = {
    {.name = "how", .type = KILN_P_STRING, .offset = offsetof(params, how), .def_str = "hang", .doc = "How."},
    {.name = "n", .type = KILN_P_INT, .offset = offsetof(params, n), .def = 0, .min = 0, .max = 100, .doc = "Which."},
};

static kiln_status run(const kiln_call *c)
{
    const params *p = c->params;
    volatile int forever = 1;
    kiln_file *f = strcmp(p->how, "hold") == 0 ? files->create(c->ctx, KILN_FILES_OUTPUT, "held", "bin") : NULL;
    if (f && files->write(f, "half of it", 10) != KILN_OK) return KILN_ERR_IO;
    int fd = open(getenv("KILN_TEST_MARK"), O_WRONLY | O_CREAT, 0600);
    close(fd);
    if (strcmp(p->how, "listen") == 0)
        for (;;) {
            kiln_status status = c->host->progress(c->ctx, 0, 0, "slowly");
            if (status) return status;
            usleep(600000);
        }
    while (strcmp(p->how, "spin") == 0 && forever) continue;
    for (;;) sleep(1000);
}

static kiln_status open_plugin(const kiln_host *host)
{
    files = host->ability(KILN_FILES_ABILITY);
    return KILN_OK;
}

static const kiln_node stop = {
    .size = sizeof stop, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "TestStop", .title = "Stop",
    .category = "test", .doc = "Does not end.",
    KILN_ARRAY(param, param), .params_size = sizeof(params), .run = run,
};
KILN_PLUGIN_OPEN("org.example.stop", "1.0.0", "MIT", open_plugin, &stop);
C
cat >"$work/hangs.c" <<'C'
/* A plugin whose open() does not come back: the process that tries it is a child. */
#include "kiln/plugin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static kiln_status open_plugin(const kiln_host *host)
{
    char text[32];
    int fd = open(getenv("KILN_TEST_MARK"), O_WRONLY | O_CREAT, 0600), n = snprintf(text, sizeof text, "%ld", (long)getpid());
    (void)host;
    if (write(fd, text, (size_t)n) != n) return KILN_ERR_IO;
    close(fd);
    for (;;) sleep(1000);
}
static kiln_status run(const kiln_call *c) { return (void)c, KILN_OK; }
static const kiln_node node = {.size = sizeof node, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "TestNothing",
                               .title = "Nothing", .category = "test", .doc = "Nothing.", .run = run};
KILN_PLUGIN_OPEN("org.example.hangs", "1.0.0", "MIT", open_plugin, &node);
C
# Where a file system has no files without a name, a temporary name is used: as on such a one.
cat >"$work/named.c" <<'C'
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int openat(int folder, const char *path, int flags, ...)
{
    static int (*real)(int, const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "openat");
    return real(folder, path, flags, mode);
}
C
cc=${CC:-gcc}
library() { $cc -std=c11 -D_GNU_SOURCE -Wall -O1 -fPIC -shared -Iinclude "$1" -ldl -o "$2"; }
library "$work/stop.c" "$work/plugins/stop.so" && library "$work/hangs.c" "$work/hangs/hangs.so" && library "$work/named.c" "$work/named.so" ||
    { bad the_plugins_are_built "see above"; exit 1; }
ok the_plugins_are_built
cat >"$work/w.yaml" <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 160, height: 120, batch_size: 1, color: 3368601}}
  large: {class_type: ImageScaleBy, inputs: {image: [blank, 0], upscale_method: lanczos, scale_by: 1.5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
{ cat "$work/w.yaml"; echo '  stop: {class_type: TestStop, inputs: {how: hang}}'; } >"$work/stop.yaml"

# begin HOW [ARGS...]: starts a run in the background (pid) and waits until its node does not come back
begin() {
    local how=$1; shift
    rm -rf "$work/mark" "$work/out"
    "${front[@]}" "$kiln" run "$work/stop.yaml" --plugins "$work/plugins" --set stop.how="$how" --cache "$work/c" --out "$work/out" "$@" \
        >"$work/stdout" 2>"$work/log" & pid=$!
    for _ in $(seq 400); do [ -e "$work/mark" ] && break; sleep 0.025; done
    [ -e "$work/mark" ] || { bad "begin_$how" "$(cat "$work/log")"; kill -9 $pid; }
    [[ $* == *--over* ]] && return
    for _ in $(seq 200); do grep -q 'save (SaveImage)' "$work/log" && break; sleep 0.025; done # what can be done is done
}
# ended SECONDS: waits so long for the end of pid; its status in $got, "alive" if it lives on
ended() {
    got=alive
    for _ in $(seq "$(awk "BEGIN {print $1 * 40}")"); do
        if ! kill -0 $pid 2>/dev/null; then wait $pid; got=$?; pid=; return; fi
        sleep 0.025
    done
}
front=(env --default-signal=INT,HUP,TERM)

# ---- a node that does not listen
for how in hang spin; do
    for signal in TERM INT HUP; do
        [ $how$signal = spinINT ] && break
        begin $how
        kill -$signal $pid
        ended 0.5
        if [ "$got" != alive ]; then bad "the_first_${signal}_asks_a_node_that_${how}s" "status $got: $(cat "$work/log")"; continue; fi
        kill -$signal $pid
        ended 20
        [ "$got" = 130 ] && ok "the_second_${signal}_ends_a_node_that_${how}s" || bad "the_second_${signal}_ends_a_node_that_${how}s" "status $got"
        [ "$got" != alive ] || { kill -9 $pid; wait $pid 2>/dev/null; pid=; }
    done
done
"$kiln" cache verify --cache "$work/c" >"$work/log" 2>&1 && grep -q ' 0 damaged' "$work/log" && ok the_store_is_sound ||
    bad the_store_is_sound "$(cat "$work/log")"
"$kiln" run "$work/w.yaml" --cache "$work/c" --out "$work/after" --events "$work/events" -q >/dev/null 2>&1
grep -q '"node": "large".*"from": "cache"' "$work/events" && ok what_was_finished_is_kept || bad what_was_finished_is_kept "$(cat "$work/events")"

# ---- a file that is being written goes too, whether it has a name already or not
for named in "" "LD_PRELOAD=$work/named.so"; do
    [ -z "$named" ] || ! ldd "$kiln" | grep -q 'libasan\|libtsan' || { echo "skip a_named_file: a sanitizer stands in the preload's place"; continue; }
    front=(env --default-signal=INT,HUP,TERM $named)
    begin hold
    [ -z "$named" ] || [ -n "$(find "$work/out" -name '.kiln-*')" ] || bad the_file_has_a_name "$(find "$work/out")"
    kill -TERM $pid; sleep 0.3; kill -TERM $pid
    ended 20
    left=$(find "$work/out" -type f ! -name 'p_0000?_.png')
    [ "$got" = 130 ] && [ -z "$left" ] && ok "nothing_half_written_is_left${named:+_with_a_name}" ||
        bad "nothing_half_written_is_left${named:+_with_a_name}" "status $got, left: $left"
done
front=(env --default-signal=INT,HUP,TERM)

# ---- a node that listens, a little late
for signal in INT TERM HUP; do
    begin listen
    kill -$signal $pid
    ended 20
    [ "$got" = 130 ] && grep -q '^kiln: interrupted; ' "$work/log" && ok "${signal}_stops_a_node_that_listens" ||
        bad "${signal}_stops_a_node_that_listens" "status $got: $(cat "$work/log")"
done
# Whatever comes while the process ends, and however late: the status stays that of an interrupted run.
late=130
for _ in 1 2 3; do
    begin listen
    kill -TERM $pid
    until grep -q '^kiln: interrupted; ' "$work/log" || ! kill -0 $pid 2>/dev/null; do :; done
    while kill -TERM $pid 2>/dev/null; do [ -e "/proc/$pid/exe" ] || break; done
    ended 20
    [ "$got" = 130 ] || late=$got
done
[ $late = 130 ] && ok signals_while_it_ends_leave_its_status || bad signals_while_it_ends_leave_its_status "status $late: $(cat "$work/log")"
# timeout(1) signals the process and then its group: one request, not two.
front=(timeout --preserve-status -s TERM 3)
begin listen
ended 20
[ "$got" = 130 ] && grep -q '^kiln: interrupted; ' "$work/log" && ok a_signal_that_comes_twice_at_once_asks_once ||
    bad a_signal_that_comes_twice_at_once_asks_once "status $got: $(cat "$work/log")"
# nohup(1): the terminal may go.
front=(nohup)
begin listen
kill -HUP $pid
ended 1
[ "$got" = alive ] && ok nohup_holds || bad nohup_holds "status $got"
kill -INT $pid 2>/dev/null; kill -TERM $pid 2>/dev/null; ended 20
front=(env --default-signal=INT,HUP,TERM)

# ---- a sweep
begin hang --over stop.n=1..3 --jobs 1
kill -TERM $pid; sleep 0.3; kill -TERM $pid
ended 20
[ "$got" = 130 ] && ok a_sweep_ends_too || bad a_sweep_ends_too "status $got: $(cat "$work/log")"
begin listen --over stop.n=1..3 --jobs 1
kill -TERM $pid
ended 20
[ "$got" = 130 ] && grep -q 'and this goes on from there' "$work/log" && ok a_sweep_stops_when_asked ||
    bad a_sweep_stops_when_asked "status $got: $(cat "$work/log")"

# ---- the child that tries a plugin goes with its parent
rm -f "$work/mark"
"$kiln" nodes --plugins "$work/hangs" >/dev/null 2>"$work/log" & pid=$!
for _ in $(seq 200); do [ -s "$work/mark" ] && break; sleep 0.025; done
child=$(cat "$work/mark")
kill -TERM $pid
ended 20
lives() { [ -e "/proc/$1/stat" ] && ! grep -q '^[0-9]* (.*) Z' "/proc/$1/stat"; } # whose parent does not ask for it stays as a zombie
for _ in $(seq 40); do lives "$child" || break; sleep 0.025; done
if [ -n "$child" ] && [ "$got" = 143 ] && ! lives "$child"; then ok the_child_goes_too; else bad the_child_goes_too "status $got, child '$child'"; fi
[ -z "$pid" ] || { kill -9 $pid; pid=; }

# ---- SIGPIPE: who reads may leave
cat >"$work/g.yaml" <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 96, height: 64, batch_size: 1, color: 3368601}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
"$kiln" run "$work/g.yaml" --no-cache -q --out "$work/ref" >/dev/null || bad reference "the run failed"
closed() { # NAME ARGS...: standard output, or both, into a pipe nobody reads
    local name=$1 both=$2; shift 2
    rm -rf "$work/out"
    if [ "$both" = both ]; then { sleep 0.1; "$kiln" run "$work/g.yaml" --no-cache --out "$work/out" "$@" 2>&1; echo $? >"$work/code"; } | true
    else { sleep 0.1; "$kiln" run "$work/g.yaml" --no-cache --out "$work/out" "$@" 2>"$work/log"; echo $? >"$work/code"; } | true; fi
    [ "$(cat "$work/code")" = 0 ] && cmp -s "$work/out/p_00001_.png" "$work/ref/p_00001_.png" && ok "$name" ||
        bad "$name" "status $(cat "$work/code"): $(cat "$work/log")"
}
closed nobody_reads_the_paths one
closed nobody_reads_anything both -v
closed nobody_reads_the_events one --events -
closed nobody_reads_the_lines_of_a_sweep both -v --over save.filename_prefix=p,q
{ sleep 0.1; "$kiln" nodes 2>"$work/log"; echo $? >"$work/code"; } | true
[ "$(cat "$work/code")" = 0 ] && [ ! -s "$work/log" ] && ok a_reader_that_has_had_enough ||
    bad a_reader_that_has_had_enough "status $(cat "$work/code"): $(cat "$work/log")"
"$kiln" nodes >/dev/full 2>"$work/log"; got=$?
[ $got -eq 1 ] && grep -q 'No space left' "$work/log" && ok a_full_output_is_an_error || bad a_full_output_is_an_error "status $got: $(cat "$work/log")"

# ---- SIGXFSZ: a limit on the size of files
# limited BLOCKS NAME STATUS PATTERN ARGS...: stderr through a pipe, which has no such limit
limited() {
    local blocks=$1 name=$2 want=$3 pattern=$4; shift 4
    bash -c 'ulimit -f '"$blocks"'; exec "$@" 2>&1 >/dev/null' limited "$@" | cat >"$work/log"
    got=${PIPESTATUS[0]}
    [ "$got" -eq "$want" ] && grep -qE -- "$pattern" "$work/log" && ok "$name" || bad "$name" "status $got: $(cat "$work/log")"
}
noise=$work/noise.png
python3 - "$noise" <<'P' || echo "skip limits: no python3 here"
import random, struct, sys, zlib
random.seed(1)
raw = b"".join(b"\0" + bytes(random.getrandbits(8) for _ in range(64 * 3)) for _ in range(64))
def chunk(t, d): return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
P
if [ -s "$noise" ]; then
    cat >"$work/n.yaml" <<'Y'
kiln: 1
nodes:
  load: {class_type: LoadImage, inputs: {image: noise.png}}
  save: {class_type: SaveImage, inputs: {images: [load, 0], filename_prefix: n}}
Y
    limited 8 a_picture_past_the_limit 1 'cannot write n: File too large' "$kiln" run "$work/n.yaml" --no-cache --out "$work/limit"
    [ -z "$(find "$work/limit" -type f)" ] && ok and_nothing_of_it_is_left || bad and_nothing_of_it_is_left "$(find "$work/limit")"
    limited 8 a_sweep_past_the_limit 1 'cannot write n.: File too large' \
        "$kiln" run "$work/n.yaml" --no-cache --out "$work/limit" --over save.filename_prefix=n1,n2
    limited 2 a_store_past_the_limit 0 'warning: .*(disk I/O error|File too large|disk is full)' \
        "$kiln" run "$work/w.yaml" --cache "$work/small" --out "$work/limited"
    limited 2 events_past_the_limit 1 "$work/e.jsonl: cannot write: File too large" \
        "$kiln" run "$work/w.yaml" --no-cache --events "$work/e.jsonl" --manifest /dev/null --over blank.color=1..9 --out "$work/limited"
    limited 2 a_trace_past_the_limit 1 "$work/t.json: cannot write: File too large" \
        "$kiln" run "$work/w.yaml" --no-cache --trace "$work/t.json" --manifest /dev/null --over blank.color=1..9 --out "$work/limited"
    limited 2 a_manifest_past_the_limit 1 "$work/m.jsonl: cannot write: File too large" \
        "$kiln" run "$work/w.yaml" --no-cache --manifest "$work/m.jsonl" --over blank.color=1..20 --out "$work/limited"
    limited 2 a_sheet_past_the_limit 1 "$work/s.png: cannot write: File too large" \
        "$kiln" run "$work/w.yaml" --no-cache --manifest /dev/null --over blank.color=1..16 --sheet "$work/s.png" --out "$work/limited"
    [ -z "$(find "$work" -name 's.png*')" ] && ok and_nothing_of_the_sheet_is_left || bad and_nothing_of_the_sheet_is_left "$(find "$work" -name 's.png*')"
fi
exit $status
