/* test_commands_memory.c - commands in this process, with an allocation failing: they end as no_memory_kit.h says, or
 * print what they print otherwise with a line on standard error about what they went without.
 */
#include "cli/command.h"
#include "no_memory_kit.h"

#include <stdio.h>
#include <unistd.h>

enum { TEXT = 1 << 20 };

#define EDITOR "tests/workflow/editor/"

static char folder[512], flow[600], including[600], stored[600], plugins_folder[600], image_plugin[700];
static char *words[24];

static size_t read_text(const char *path, char *to)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, TEXT - 1, f) : 0;
    to[n] = 0;
    if (f) fclose(f);
    return n;
}

static int run_words(void)
{
    char text[24][600], *argv[24] = {NULL}; /* writable, as a process has them */
    int argc = 0;
    for (; words[argc]; argc++) argv[argc] = strcpy(text[argc], words[argc]);
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, argv[0]) == 0) return commands[i].run(argc, argv);
    return 99;
}

static kiln_status run_command(yield *out, error *e)
{
    static char printed[TEXT], said[TEXT];
    char out_path[600], log_path[600];
    snprintf(out_path, sizeof out_path, "%s/stdout", folder);
    snprintf(log_path, sizeof log_path, "%s/stderr", folder);
    fflush(stdout), fflush(stderr);
    int saved_out = dup(1), saved_log = dup(2);
    if (!freopen(out_path, "w", stdout) || !freopen(log_path, "w", stderr)) return error_set(e, KILN_ERR_BUG, "freopen");
    int status = run_words();
    fflush(stdout), fflush(stderr);
    dup2(saved_out, 1), dup2(saved_log, 2);
    close(saved_out), close(saved_log);
    size_t n = read_text(out_path, printed);
    read_text(log_path, said);
    if (status != EXIT_DONE) {
        const char *why = strstr(said, "memory") ? said : printed;
        return error_set(e, strstr(why, "memory") ? KILN_ERR_NOMEM : KILN_ERR_INVALID, "status %d: %s", status, why);
    }
    if (strstr(said, "memory")) return error_set(e, KILN_ERR_NOMEM, "%s", said); /* it went without, and said so */
    yield_bytes(out, printed, n);
    return KILN_OK;
}

#define COMMAND(name, ...)                                                                                             \
    static void test_##name(void)                                                                                      \
    {                                                                                                                  \
        char *argv[] = {__VA_ARGS__, NULL};                                                                            \
        memset(words, 0, sizeof words);                                                                                \
        memcpy(words, argv, sizeof argv);                                                                              \
        fail_everywhere(#name, run_command);                                                                           \
    }

COMMAND(check, "check", flow)
COMMAND(check_json, "check", flow, "--json")
COMMAND(check_api, "check", "tests/golden/prompt.json", "--models", "tests/golden")
COMMAND(check_include, "check", including)
COMMAND(check_bypass, "check", EDITOR "bypass.json", "--models", "tests/golden")
COMMAND(check_dynamic, "check", EDITOR "dynamic.json")
COMMAND(check_nested, "check", EDITOR "nested_proxy.json")
COMMAND(check_primitive, "check", EDITOR "primitive.json")
COMMAND(check_setget, "check", EDITOR "setget.json")
COMMAND(check_version1, "check", EDITOR "version1.json")
COMMAND(convert, "convert", flow, "-o", "-")
COMMAND(convert_api, "convert", flow, "--to", "api", "-o", "-")
COMMAND(convert_box, "convert", EDITOR "box.json", "-o", "-")
COMMAND(convert_subgraph, "convert", EDITOR "subgraph.json", "-o", "-")
COMMAND(convert_widgets, "convert", EDITOR "widgets.json", "-o", "-")
COMMAND(params, "params", flow)
COMMAND(params_json, "params", flow, "--all", "--json")
COMMAND(graph, "graph", flow, "-o", "-")
COMMAND(nodes_one, "nodes", "KSampler")
COMMAND(models, "models", "--models", "tests/golden")
COMMAND(models_json, "models", "--models", "tests/golden", "--json", "--hash")
COMMAND(inspect, "inspect", "tests/golden/tiny-sd1")
COMMAND(inspect_json, "inspect", "tests/golden/tiny-sd1/unet", "--json", "--finite", "--identity")
COMMAND(inspect_lora, "inspect", "tests/golden/lora/kohya.safetensors", "--tensors")
COMMAND(inspect_gguf, "inspect", "tests/golden/gguf/blocks.gguf", "--tensors")
COMMAND(quantize, "quantize", "tests/golden/tiny-sd1/unet", stored, "--type", "q8_0", "--force")
COMMAND(plugin_info, "plugin", "info", image_plugin)
COMMAND(explain, "run", flow, "--trust", "all", "--explain", "--no-cache")
COMMAND(dry_run, "run", flow, "--trust", "all", "--dry-run", "--no-cache")

static int put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

static int put_files(void)
{
    return put_text(flow, "name: small\ndescription: a picture\nparams: {width: 16, prefix: {default: x, help: how it is called}}\n"
                          "inputs: {size: [empty, width]}\noutputs: {picture: [more, 0]}\nnodes:\n"
                          "  empty: {class_type: EmptyImage, inputs: {width: \"${width}\", height: 16}}\n"
                          "  more: {class_type: ImageInvert, inputs: {image: [empty, IMAGE]}}\n"
                          "  save: {class_type: SaveImage, inputs: {images: [more, 0], filename_prefix: \"%empty.width%_${prefix}\"}}\n") &&
           put_text(including, "nodes:\n  a: {include: flow.yaml, inputs: {size: 32}, set: {prefix: y}}\n"
                               "  save: {class_type: SaveImage, inputs: {images: [a, picture]}}\n");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_check), CASE(test_check_json), CASE(test_check_api), CASE(test_check_include), CASE(test_check_bypass), CASE(test_check_dynamic), CASE(test_check_nested), CASE(test_check_primitive), CASE(test_check_setget), CASE(test_check_version1), CASE(test_convert), CASE(test_convert_api), CASE(test_convert_box), CASE(test_convert_subgraph), CASE(test_convert_widgets), CASE(test_params), CASE(test_params_json), CASE(test_graph), CASE(test_nodes_one), CASE(test_models), CASE(test_models_json), CASE(test_inspect), CASE(test_inspect_json), CASE(test_inspect_lora), CASE(test_inspect_gguf), CASE(test_quantize), CASE(test_plugin_info), CASE(test_explain), CASE(test_dry_run)};
    snprintf(folder, sizeof folder, "%s", test_folder());
    snprintf(flow, sizeof flow, "%s/flow.yaml", folder);
    snprintf(including, sizeof including, "%s/including.yaml", folder);
    snprintf(stored, sizeof stored, "%s/stored.gguf", folder);
    snprintf(plugins_folder, sizeof plugins_folder, "%s/plugins", test_build());
    snprintf(image_plugin, sizeof image_plugin, "%s/kiln-image.so", plugins_folder);
    setenv("KILN_PLUGIN_PATH", plugins_folder, 1);
    setenv("KILN_CONFIG", "off", 1);
    if (chdir(test_root()) != 0 || !put_files()) return 2;
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
