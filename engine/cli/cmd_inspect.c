/* cmd_inspect.c - `kiln inspect`: what is in a model file or folder (inspect.h), or the list of its tensors. */
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "cli/open_catalog.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "weights/weights.h"
#include "workflow/picture_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const option options[] = {
    {"--tensors", 0, NULL, "list the tensors instead: type, shape, name", 0},
    {"--json", 0, NULL, "print everything that was found as one JSON object", 0},
    {"--identity", 0, NULL, "also print the digest of the content (reads the whole file)", 0},
    {"--finite", 0, NULL, "also look for NaN and infinity in every tensor (reads the whole file)", 0},
    PLUGINS_OPTION,
};
const manual manual_inspect = {
    .usage = "kiln inspect PATH [options]",
    .about = "Says what is in a .safetensors or .gguf file or a model folder: its parts, whether they are complete, "
             "their sizes\n"
             "and types, what is left over, and the metadata. Only headers are read. Exit status 2 when it cannot be\n"
             "read, when no loaded plugin knows any part of it, or when a part is not complete.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln inspect workflows/models/shapes-sd1\n  kiln inspect workflows/models/shapes-sd1 --tensors | "
                "grep conv_in\n",
    .operand = OPERAND_FILE,
};

static void list_tensors(const kiln_weights *w)
{
    uint64_t total = 0;
    char text[80], bytes[16];
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; weights_at(w, i, &info) == KILN_OK; i++) {
        shape s = {0};
        shape_make(&s, info.rank, info.dim);
        print_text(stdout, "%-9s %-24s %s\n", weights_type_name(w, info.name), shape_text(&s, text), info.name);
        total += info.stored_bytes;
    }
    print_text(stdout, "%zu tensors, %s\n", weights_count(w), str_bytes(bytes, total));
}

static kiln_status scan_all(const kiln_weights *w, error *e)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; weights_at(w, i, &info) == KILN_OK; i++)
        if (info.dtype && weights_scan_finite(w, info.name, e) != KILN_OK) return e->status;
    return KILN_OK;
}

/* 1: somebody knows a part of it, and all parts are whole. */
static int is_sound(const kiln_value *found)
{
    const kiln_value *parts = value_api.map_get(found, "parts");
    int sound = value_api.count(parts) > 0;
    for (size_t i = 0; i < value_api.count(parts); i++) {
        int complete = 0;
        value_api.get_bool(value_api.map_get(value_api.list_at(parts, i), "complete"), &complete);
        sound = sound && complete;
    }
    return sound;
}

static int summary(kiln_weights *w, const char *path, const char *shown, const arguments *a, error *e)
{
    int status;
    catalog *c = open_catalog("inspect", a, &status);
    if (!c) return status;
    kiln_value *found = inspect_set(w, path, e);
    if (found && argument(a, "--json"))
        inspect_print_json(found);
    else if (found)
        inspect_print(found);
    status = found && is_sound(found) ? EXIT_DONE : EXIT_BAD_INPUT;
    if (found && !value_api.count(value_api.map_get(found, "parts")))
        error_set(e, KILN_ERR_UNSUPPORTED,
                  "%s: no loaded plugin knows any part of it; `kiln plugins` lists what is loaded", shown);
    value_unref(found);
    catalog_close(c);
    return status;
}

/* How to make something of what is refused. */
static void print_remedy(const char *path, const error *e)
{
    if (e->status != KILN_ERR_UNSUPPORTED || !strstr(e->message, "pickle")) return;
    print_text(stderr,
               "  To convert it, where you trust it, with Python's torch and safetensors:\n"
               "  python3 -c 'import sys, torch; from safetensors.torch import save_file; d = torch.load(sys.argv[1], "
               "map_location=\"cpu\", weights_only=True); d = next((d[n] for n in (\"state_dict\", \"params_ema\", "
               "\"params\", \"string_to_param\") if n in d), d); save_file({k: v.detach().contiguous() for k, v in "
               "d.items() if hasattr(v, \"contiguous\")}, sys.argv[2])' '%s' model.safetensors\n",
               path);
}

/* Standard input ("-") and pipes: models are mapped, so what comes is first put into a file without a name, in TMPDIR.
 * Its descriptor; -1: it is a file or a folder already, or `e` says what failed. */
static int spool(const char *path, error *e)
{
    int standard = strcmp(path, "-") == 0, from, to;
    const char *folder = getenv("TMPDIR");
    static char piece[1 << 16];
    struct stat st;
    ssize_t n = 0;
    if (!standard && (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) return -1;
    if (standard && fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode)) return dup(STDIN_FILENO);
    to = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    from = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (to < 0 || from < 0) {
        error_set(e, KILN_ERR_IO, "%s: %s: %s", path, from < 0 ? "cannot open" : "no room to read it into (TMPDIR)",
                  strerror(errno));
    } else {
        while ((n = read(from, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR)) {
            ssize_t at = 0, done = 0;
            for (; at < n && (done = write(to, piece + at, (size_t)(n - at))) >= 0; at += done) {
            }
            if (done < 0) break;
        }
        if (n != 0) error_set(e, KILN_ERR_IO, "%s: cannot be read into a file of TMPDIR: %s", path, strerror(errno));
    }
    if (from >= 0) close(from);
    if (e->status == KILN_OK) return to;
    if (to >= 0) close(to);
    return -1;
}

static int inspect(const arguments *a, const char *path, const char *shown, error *e)
{
    int status = EXIT_BAD_INPUT;
    if (picture_text_is_picture(path))
        return error_set(e, KILN_ERR_INVALID, "%s: this is a picture; `kiln params %s` shows the workflow it carries",
                         shown, shown),
               status;
    kiln_weights *w = weights_open(path, e);
    if (!w) return status;
    if (argument(a, "--tensors"))
        list_tensors(w), status = EXIT_DONE;
    else
        status = summary(w, path, shown, a, e);
    if (e->status == KILN_OK && argument(a, "--finite")) scan_all(w, e);
    const char *identity = e->status == KILN_OK && argument(a, "--identity") ? weights_identity(w, e) : NULL;
    if (identity) print_text(stdout, "identity %s\n", identity);
    weights_unref(w);
    return e->status == KILN_OK ? status : EXIT_BAD_INPUT;
}

int cmd_inspect(int argc, char **argv)
{
    arguments a;
    error e = {0};
    if (!arguments_read(&a, &manual_inspect, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_inspect), EXIT_DONE;
    if (a.n_operand != 1) {
        print_text(stderr, "kiln: which file or folder?\nusage: %s\n", manual_inspect.usage);
        return EXIT_BAD_INPUT;
    }
    char shipped[SHIPPED_PATH_MAX];
    take_shipped(&a.operand[0], shipped);
    char spooled[40];
    int fd = spool(a.operand[0], &e), status = EXIT_BAD_INPUT; /* before a child that may be started again reads it */
    snprintf(spooled, sizeof spooled, "/proc/self/fd/%d", fd);
    if (e.status == KILN_OK && !argument(&a, "--tensors") && !contain_plugins(&a, &status)) {
        if (fd >= 0) close(fd);
        return status;
    }
    if (e.status == KILN_OK) status = inspect(&a, fd < 0 ? a.operand[0] : spooled, a.operand[0], &e);
    if (fd >= 0) close(fd);
    if (e.status == KILN_OK) return status;
    size_t own = fd >= 0 && strncmp(e.message, spooled, strlen(spooled)) == 0 ? strlen(spooled) : 0;
    print_text(stderr, "kiln: error: %s%s\n", own ? a.operand[0] : "", e.message + own);
    print_remedy(a.operand[0], &e);
    return status;
}
