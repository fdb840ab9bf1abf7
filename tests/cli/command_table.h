/* command_table.h - the commands of test_memory_places.c and test_call_places.c: each subcommand in the forms that go
 * different ways, on small files. What a row makes is compared with what it makes without a fault.
 */
#ifndef KILN_TESTS_COMMAND_TABLE_H
#define KILN_TESTS_COMMAND_TABLE_H

#include "command_faults.h"

enum { MOST_WORDS = 24 };

typedef struct {
    const char *name;
    int status;
    const char *before, *product; /* below the test's folder */
    const char *words[MOST_WORDS];
} command_row;

/* Words that begin with ~ are below the repository, the rest below the test's folder; OUT is another in each run. */
#define OUT "@out"
static const command_row command_rows[] = {
    {"run",
     0,
     "rm -rf cache out",
     NULL,
     {"run", "flow.yaml", "--trust", "all", "--out", OUT, "--cache", "cache", "-v", "--events", "events.json",
      "--trace", "trace.json", "--validate"}},
    {"run_file",
     0,
     "rm -rf cache out",
     "one.png",
     {"run", "flow.yaml", "-o", "one.png", "--cache", "cache", "-q", "--set", "width=24"}},
    {"run_json",
     0,
     "rm -rf out",
     NULL,
     {"run", "~tests/workflow/editor/primitive.json", "--models", "~tests/golden", "--out", OUT, "--no-cache", "-q",
      "--set", "5.width=64", "--set", "5.height=64", "--set", "3.steps=1"}},
    {"run_picture", 0, "rm -rf out", NULL, {"run", "drawn.png", "--out", OUT, "--no-cache", "-q", "--set", "width=8"}},
    {"run_sweep",
     0,
     "rm -rf cache out",
     "sheet.png",
     {"run", "flow.yaml", "--trust", "all", "--out", OUT, "--cache", "cache", "--over", "width=16,24", "--over",
      "prefix=@lines", "--sheet", "sheet.png", "--manifest", "rows.jsonl", "--fail-fast"}},
    {"run_rows",
     0,
     "rm -rf cache out",
     NULL,
     {"run", "flow.yaml", "--out", OUT, "--cache", "cache", "--over-file", "rows.csv", "-v"}},
    {"run_again",
     0,
     NULL,
     NULL,
     {"run", "flow.yaml", "--out", "kept", "--cache", "kept_cache", "--over", "width=16,24"}},
    {"run_existing",
     0,
     NULL,
     NULL,
     {"run", "flow.yaml", "--out", "kept", "--no-cache", "--over", "prefix=k,m", "--skip-existing"}},
    {"run_dry",
     0,
     NULL,
     NULL,
     {"run", "flow.yaml", "--dry-run", "--json", "--cache", "kept_cache", "--over", "width=16,20,24"}},
    {"run_explain", 0, NULL, NULL, {"run", "flow.yaml", "--explain", "--json", "--cache", "kept_cache"}},
    {"run_drawn", 0, "rm -rf cache out", NULL, {"run",          "~workflows/txt2img.yaml",
                                                "--trust",      "all",
                                                "--models",     "~tests/golden",
                                                "--set",        "model.ckpt_name=tiny-sd1",
                                                "--set",        "empty.width=16",
                                                "--set",        "empty.height=16",
                                                "--set",        "steps=2",
                                                "--preview",    "preview.png",
                                                "--cache",      "cache",
                                                "--out",        OUT,
                                                "--save-state", "1"}},
    {"run_lists", 0, "rm -rf out", NULL, {"run", "lists.yaml", "--out", OUT, "--no-cache", "--jobs", "2"}},
    {"run_foreign",
     0,
     "rm -rf cache out",
     NULL,
     {"run", "foreign.yaml", "--plugins", "soft-glow", "--out", OUT, "--cache", "cache", "-q", "--sandbox"}},
    {"run_includes",
     0,
     "rm -rf out",
     NULL,
     {"run", "includes.yaml", "--out", OUT, "--no-cache", "-q", "--set", "part/more.alpha=0.5"}},
    {"run_faulty", 2, NULL, NULL, {"run", "faulty.yaml", "--out", OUT, "--no-cache"}},
    {"check", 0, NULL, NULL, {"check", "flow.yaml", "includes.yaml", "lists.yaml", "matrix.yaml"}},
    {"check_faulty", 2, NULL, NULL, {"check", "faulty.yaml", "broken.yaml", "--json"}},
    {"check_editor",
     0,
     NULL,
     NULL,
     {"check", "~tests/workflow/editor/subgraph.json", "~tests/workflow/editor/nested_proxy.json",
      "~tests/workflow/editor/setget.json", "~tests/workflow/editor/widgets.json", "--models", "~tests/golden"}},
    {"check_template", 2, NULL, NULL, {"check", "~tests/workflow/templates/sdxl_simple_example.json"}},
    {"params", 0, NULL, NULL, {"params", "includes.yaml", "--all"}},
    {"graph_dot", 0, NULL, "graph.dot", {"graph", "lists.yaml", "-o", "graph.dot"}},
    {"convert_api", 0, NULL, "api.json", {"convert", "includes.yaml", "-o", "api.json"}},
    {"convert_yaml", 0, NULL, "back.yaml", {"convert", "~tests/workflow/editor/subgraph.json", "-o", "back.yaml"}},
    {"convert_picture", 0, NULL, "back.yaml", {"convert", "drawn.png", "-o", "back.yaml"}},
    {"nodes", 0, NULL, NULL, {"nodes", "--plugins", "soft-glow"}},
    {"nodes_named", 0, NULL, NULL, {"nodes", "SoftGlow", "KSampler", "--plugins", "soft-glow"}},
    {"nodes_coverage", 0, NULL, NULL, {"nodes", "--coverage", "image", "--json"}},
    {"types_named", 0, NULL, NULL, {"types", "LATENT", "IMAGE"}},
    {"samplers_named", 0, NULL, NULL, {"samplers", "dpm_adaptive", "euler"}},
    {"ops_named", 0, NULL, NULL, {"ops", "attention", "map"}},
    {"plugins", 1, NULL, NULL, {"plugins", "--plugins", "soft-glow:broken"}},
    {"plugins_json", 0, NULL, NULL, {"plugins", "--plugins", "soft-glow", "--json"}},
    {"plugin_new", 0, "rm -rf fresh", NULL, {"plugin", "new", "fresh", "--kind", "sampler", "--lang", "rust"}},
    {"plugin_install", 0, "rm -rf data", NULL, {"plugin", "install", "soft-glow"}},
    {"plugin_replace", 0, NULL, NULL, {"plugin", "install", "soft-glow", "--replace"}},
    {"plugin_list", 0, NULL, NULL, {"plugin", "list", "--json"}},
    {"plugin_list_folder", 0, "rm -rf fresh", NULL, {"plugin", "list", "."}},
    {"plugin_list_index", 0, NULL, NULL, {"plugin", "list", "index.json"}},
    {"plugin_info", 0, NULL, NULL, {"plugin", "info", "soft-glow"}},
    {"plugin_info_id", 0, NULL, NULL, {"plugin", "info", "org.example.soft-glow", "--json"}},
    {"plugin_disable", 0, NULL, NULL, {"plugin", "disable", "org.example.soft-glow"}},
    {"plugin_enable", 0, NULL, NULL, {"plugin", "enable", "org.example.soft-glow"}},
    {"plugin_index", 0, "rm -rf fresh", "index.new", {"plugin", "index", ".", "-o", "index.new"}},
    {"plugin_remove",
     0,
     "cp -r data gone && trap 'rm -rf gone' EXIT; rm -rf data && cp -r gone data",
     NULL,
     {"plugin", "remove", "org.example.soft-glow"}},
    {"cache_ls", 0, NULL, NULL, {"cache", "ls", "--sort", "size", "--cache", "kept_cache"}},
    {"cache_stat", 0, NULL, NULL, {"cache", "stat", "--json", "--cache", "kept_cache"}},
    {"cache_gc",
     0,
     "rm -rf cache && cp -r kept_cache cache",
     NULL,
     {"cache", "gc", "--size", "1K", "--cache", "cache"}},
    {"cache_clear",
     0,
     "rm -rf cache && cp -r kept_cache cache",
     NULL,
     {"cache", "clear", "--type", "EmptyImage", "--cache", "cache"}},
    {"cache_verify", 0, NULL, NULL, {"cache", "verify", "--cache", "kept_cache"}},
    {"models", 0, NULL, NULL, {"models", "--models", "~tests/golden", "--hash"}},
    {"inspect", 0, NULL, NULL, {"inspect", "~tests/golden/tiny-sd1", "--finite", "--identity"}},
    {"inspect_json", 0, NULL, NULL, {"inspect", "~tests/golden/tiny-sd1/unet", "--json"}},
    {"inspect_gguf", 0, NULL, NULL, {"inspect", "~tests/golden/gguf/blocks.gguf", "--tensors", "--finite"}},
    {"inspect_split", 2, NULL, NULL, {"inspect", "~tests/golden/gguf/split-00001-of-00002.gguf", "--json"}},
    {"inspect_picture", 2, NULL, NULL, {"inspect", "drawn.png"}},
    {"quantize",
     0,
     NULL,
     "stored.gguf",
     {"quantize", "~tests/golden/tiny-sd1/unet", "stored.gguf", "--type", "q4_k", "--keep", "time_*"}},
    {"quantize_safetensors",
     0,
     NULL,
     "stored.safetensors",
     {"quantize", "~tests/golden/gguf/blocks.gguf", "stored.safetensors", "--type", "q8_0"}},
    {"completions", 0, NULL, NULL, {"completions", "settings", "flow.yaml", "width"}},
    {"completions_names", 0, NULL, NULL, {"completions", "names", "nodes"}},
    {"check_node", 0, NULL, NULL, {"check-plugin", "soft-glow/soft-glow.so", "--sets", "1"}},
    {"check_op", 0, NULL, NULL, {"check-plugin", "glow-op/glow-op.so", "--json"}},
    {"check_sampler", 0, NULL, NULL, {"check-plugin", "glow-sampler/glow-sampler.so"}},
    {"plugins_first_seen", 0, "rm -rf xdg", NULL, {"plugins", "--plugins", "soft-glow"}},
    {"check_family", 0, NULL, NULL, {"check-plugin", "glow-model/glow-model.so", "--fixture", "zeros.safetensors"}},
    {"plugin_check", 0, NULL, NULL, {"plugin", "check", "glow-op"}},
    {"run_reference",
     0,
     "rm -rf out",
     NULL,
     {"run", "flow.yaml", "--device", "reference", "--precision", "f32", "--memory", "900M", "--threads", "1", "--out",
      OUT, "--no-cache", "-q", "--explain"}},
    {"run_watched",
     130,
     "rm -rf out cache",
     NULL,
     {"run", "flow.yaml", "--watch", "--out", "out", "--cache", "cache", "-q"}},
    {"config", 0, NULL, NULL, {"types", "LATENT", "--json"}},
};
enum { FIRST_CHECK = 15, COMMAND_ROWS = sizeof command_rows / sizeof command_rows[0] };

static char **command_words(const command_row *row)
{
    static char text[MOST_WORDS][600], *words[MOST_WORDS + 1];
    int n = 0;
    for (; n < MOST_WORDS && row->words[n]; n++) {
        const char *w = row->words[n];
        snprintf(text[n], sizeof text[n], "%s%s%s", w[0] == '~' ? test_root() : "", w[0] == '~' ? "/" : "",
                 w[0] == '~' ? w + 1 : w);
        words[n] = strcmp(w, OUT) == 0 ? fault_out : text[n];
    }
    words[n] = NULL;
    return words;
}

/* A fault in each command, one after another. */
static inline void fail_commands(int from, int to)
{
    for (int i = from; i < to; i++) {
        const command_row *row = &command_rows[i];
        faulty_command c = {.name = row->name, .before = row->before, .product = row->product, .status = row->status};
        c.shows_failures = strcmp(row->name, "run_sweep") == 0;
        if (strcmp(row->name, "run_watched") == 0) c.touched = row->words[1];
        c.argv = command_words(row);
        fault_command(&c);
    }
}

static const char command_files[] =
    "cat >flow.yaml <<'Y'\n"
    "params: {width: 16, prefix: k}\n"
    "nodes:\n"
    "  empty: {class_type: EmptyImage, inputs: {width: \"${width}\", height: 16}}\n"
    "  more: {class_type: ImageInvert, inputs: {image: [empty, 0]}}\n"
    "  save: {class_type: SaveImage, inputs: {images: [more, 0], filename_prefix: \"${prefix}\"}}\n"
    "Y\n"
    "sed 's/^params/matrix: {width: [16, 32], prefix: [m, n]}\\nparams/' flow.yaml >matrix.yaml\n"
    "cat >part.yaml <<'Y'\n"
    "params: {strength: 1.0}\noutputs: {image: [more, 0]}\n"
    "nodes:\n"
    "  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}\n"
    "  more: {class_type: ImageSharpen, inputs: {image: [empty, 0], alpha: \"${strength}\"}}\n"
    "Y\n"
    "cat >includes.yaml <<'Y'\n"
    "nodes:\n"
    "  part: {include: part.yaml}\n"
    "  save: {class_type: SaveImage, inputs: {images: [part, image]}}\n"
    "Y\n"
    "cat >lists.yaml <<'Y'\n"
    "nodes:\n"
    "  a: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 2}}\n"
    "  b: {class_type: EmptyImage, inputs: {width: 8, height: 8}}\n"
    "  off: {class_type: EmptyImage, inputs: {width: 8, height: 8}}\n"
    "  sa: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: a}}\n"
    "  sb: {class_type: SaveImage, inputs: {images: [b, 0], filename_prefix: b}}\n"
    "Y\n"
    "cat >foreign.yaml <<'Y'\n"
    "nodes:\n"
    "  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}\n"
    "  glow: {class_type: SoftGlow, inputs: {image: [empty, 0], gain: 2}}\n"
    "  save: {class_type: SaveImage, inputs: {images: [glow, 0]}}\n"
    "Y\n"
    "cat >faulty.yaml <<'Y'\n"
    "params: {width: 16, unused: 1, width: 8}\n"
    "nodes:\n"
    "  empty: {class_type: EmptyImag, inputs: {width: \"${widht}\", height: 0}}\n"
    "  more: {class_type: ImageInvert, inputs: {image: [emty, 0], imag: 3}}\n"
    "  save: {class_type: SaveImage, inputs: {images: [more, 7], filename_prefix: [1]}}\n"
    "Y\n"
    "printf 'nodes: {a: [\\n' >broken.yaml; printf 'p\\nq\\n' >lines; printf 'width,prefix\\n16,\"c, d\"\\n24,e\\n' "
    ">rows.csv\n"
    "printf 'threads: 2\\ninspect: {plugins: soft-glow}\\n' >config.yaml\n"
    "build() { \"$K\" plugin new $1 --kind $2 >/dev/null && gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared "
    "-I\"$R/include\" "
    "$1/*.c -o $1/$1.so -lm && chmod go-w $1/$1.so; }\n"
    "python3 - <<'P'\n"
    "import json, struct\n"
    "shapes = {'in.weight': [8, 4], 'in.bias': [8], 'time.weight': [8, 16], 'time.bias': [8], 'out.weight': [4, 8], "
    "'out.bias': [4]}\n"
    "head, at = {}, 0\n"
    "for name, dim in shapes.items():\n"
    "    n = 4 * dim[0] * (dim + [1])[1]\n"
    "    head['glow_model.' + name] = {'dtype': 'F32', 'shape': dim, 'data_offsets': [at, at + n]}\n"
    "    at += n\n"
    "text = json.dumps(head).encode()\n"
    "open('zeros.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + bytes(at))\n"
    "P\n"
    "mkdir -p home broken && head -c 300 /dev/urandom >broken/no.so\n"
    "build soft-glow node && build glow-op op && build glow-model model && build "
    "glow-sampler sampler && rm glow-op/glow-op.yaml "
    "glow-sampler/glow-sampler.yaml || exit 1\n"
    "for w in 16 24; do \"$K\" run flow.yaml --over width=16,24 --out kept --cache kept_cache -q || exit 1; done "
    ">/dev/null 2>&1\n"
    "\"$K\" run flow.yaml -o drawn.png --no-cache -q >/dev/null && \"$K\" plugin index . -o index.json >/dev/null "
    "2>&1\n"
    "[ -s drawn.png ]\n";

/* Goes on in a copy of this program, which stands where a kiln would: with its templates, and as what it starts. */
static inline int commands_installed(char **argv)
{
    char line[2600];
    int status = -1;
    snprintf(
        line, sizeof line,
        "mkdir '%s/bin' && cp /proc/%d/exe '%s/bin/kiln' && ln -s '%s/plugins/templates' '%s/bindings/rust' '%s/bin'",
        test_folder(), (int)getpid(), test_folder(), test_root(), test_root(), test_folder());
    if (system(line) != 0) return 2;
    snprintf(line, sizeof line, "%s/bin/kiln", test_folder());
    pid_t pid = fork();
    if (pid == 0) setenv("KILN_TEST_COMMANDS", test_folder(), 1), execv(line, argv), _exit(2);
    if (pid > 0) waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static inline int commands_begin(void)
{
    char build[600];
    snprintf(build, sizeof build, "%s", test_build());
    char *real = realpath(build, NULL);
    if (!real || !fault_begin() || chdir(fault_folder) != 0) return 0;
    snprintf(build, sizeof build, "%s/kiln", real), setenv("K", build, 1), setenv("R", test_root(), 1);
    snprintf(build, sizeof build, "%s/plugins", real), setenv("KILN_PLUGIN_PATH", build, 1);
    free(real);
    unsetenv("KILN_CACHE");
    setenv("KILN_CONFIG", "off", 1), setenv("XDG_DATA_HOME", fault_path("data"), 1);
    setenv("XDG_CACHE_HOME", fault_path("xdg"), 1), setenv("HOME", fault_path("home"), 1);
    if (system(command_files) != 0) return 0;
    setenv("KILN_CONFIG", fault_path("config.yaml"), 1);
    return 1;
}

static inline int is_command(const char *name)
{
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, name) == 0) return 1;
    return 0;
}

static inline int commands_main(int argc, char **argv, const test_case *cases, size_t n)
{
    if (!getenv("KILN_TEST_COMMANDS")) return commands_installed(argv);
    if (argc > 1 && is_command(argv[1])) { /* as main.c does it */
        crash_report_begin();
        int status = fault_run_named(argv + 1);
        supervisor_finished(status);
        crash_report_end();
        return status;
    }
    if (!commands_begin()) return fprintf(stderr, "the commands' files could not be made\n"), 2;
    return test_main(argc, argv, cases, n);
}

#endif
