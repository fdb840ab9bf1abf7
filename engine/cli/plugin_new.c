/* plugin_new.c - `kiln plugin new`: a folder that builds, made of the templates that are installed with kiln
 * (share/kiln/templates; plugins/templates in the sources). A template is a plugin called my-plugin; its name is
 * exchanged in every file. The folder appears whole or not at all. */
#include "cli/cmd_plugin.h"

#include "base/file.h"
#include "base/install.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/print.h"
#include "plugin/abilities.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 40, FILE_BYTES_MAX = 1 << 20 };

static const char *const kinds[] = {"node", "sampler", "guider", "model", "op"},
                         *const languages[] = {"c", "c++", "rust"}, *const endings[] = {"c", "cpp", "rs"};
static const char *const described[] = {"a node", "a sampler", "a guider", "a model", "an op with a node that uses it"};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], N_LANGUAGES = sizeof languages / sizeof languages[0] };

/* The name as it stands in identifiers, types, titles and ids. */
typedef struct {
    char hyphens[NAME_MAX_BYTES + 1], underscores[NAME_MAX_BYTES + 1], camel[NAME_MAX_BYTES + 1],
        title[NAME_MAX_BYTES + 1];
    char id[129];
    char crate[PATH_MAX]; /* of Rust, as it is installed */
} names;

/* soft-glow */
static int is_name(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > NAME_MAX_BYTES || !islower((unsigned char)s[0]) || s[n - 1] == '-' || strstr(s, "--")) return 0;
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static names names_of(const char *name, const char *id)
{
    names out = {0};
    size_t camel = 0;
    snprintf(out.hyphens, sizeof out.hyphens, "%s", name);
    for (size_t i = 0; name[i]; i++) {
        int begins = i == 0 || name[i - 1] == '-';
        char upper = (char)toupper((unsigned char)name[i]);
        out.underscores[i] = name[i] == '-' ? '_' : name[i];
        out.title[i] = name[i] == '-' ? ' ' : begins ? upper : name[i];
        if (name[i] != '-') out.camel[camel++] = begins ? upper : name[i];
    }
    if (id)
        snprintf(out.id, sizeof out.id, "%s", id);
    else
        snprintf(out.id, sizeof out.id, "org.example.%s", name);
    return out;
}

/* Where the Rust crate lies; "": it is not installed. */
static void find_crate(names *n)
{
    char path[PATH_MAX], *real = NULL;
    if (install_find("../share/kiln/rust", path, sizeof path) || install_find("rust", path, sizeof path))
        real = path_real(path);
    snprintf(n->crate, sizeof n->crate, "%s", real ? real : "");
    mem_free(real);
}

/* The text of a template with its name exchanged, the id first. */
static void exchange(str *to, const char *text, const names *n, const char *source)
{
    const struct {
        const char *from, *to;
    } word[] = {{"org.example.my-plugin", n->id},
                {"my_plugin.c", source},
                {"my-plugin", n->hyphens},
                {"my_plugin", n->underscores},
                {"MyPlugin", n->camel},
                {"My Plugin", n->title},
                {"@CRATE@", n->crate}};
    while (*text) {
        size_t k = 0;
        while (k < sizeof word / sizeof word[0] && strncmp(text, word[k].from, strlen(word[k].from)) != 0) k++;
        if (k < sizeof word / sizeof word[0])
            str_append(to, word[k].to), text += strlen(word[k].from);
        else
            str_char(to, *text++);
    }
}

/* ---- files ---- */

typedef struct {
    char templates[PATH_MAX];
    const char *folder; /* the new one, under its temporary name */
    const names *names;
    const char *source; /* "soft_glow.c" */
    error *e;
} making;

static kiln_status put_file(const making *m, const char *from, const char *to)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t size;
    str s = {0};
    if (snprintf(path, sizeof path, "%s/%s", m->templates, from) >= (int)sizeof path)
        return error_set(m->e, KILN_ERR_IO, "the path is too long");
    TRY(file_read(path, FILE_BYTES_MAX, &text, &size, m->e));
    exchange(&s, text, m->names, m->source);
    mem_free(text);
    kiln_status status = s.failed ? error_set(m->e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
    if (status == KILN_OK && snprintf(path, sizeof path, "%s/%s", m->folder, to) >= (int)sizeof path)
        status = error_set(m->e, KILN_ERR_IO, "the path is too long");
    if (status == KILN_OK) status = file_write_whole(path, str_text(&s), s.len, m->e);
    str_free(&s);
    return status;
}

static kiln_status put_folder(const making *m, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", m->folder, name) >= (int)sizeof path)
        return error_set(m->e, KILN_ERR_IO, "the path is too long");
    return folder_make(path, m->e);
}

static kiln_status put_all(const making *m, const char *kind)
{
    const int rust = m->names->crate[0] != '\0';
    const char *const common[][2] = {{rust ? "common/Makefile.rust" : "common/Makefile", "Makefile"},
                                     {"common/README.md", "README.md"},
                                     {"common/gitignore", ".gitignore"},
                                     {"common/pixels.sh", "pixels.sh"},
                                     {rust ? "common/ci.rust.yml" : "common/ci.yml", ".github/workflows/test.yml"}};
    static const char *const own[] = {"kiln-plugin.yaml", "test.sh"};
    char from[64];
    TRY(put_folder(m, ".github/workflows"));
    if (rust) TRY(put_file(m, "common/Cargo.toml", "Cargo.toml"));
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) TRY(put_file(m, common[i][0], common[i][1]));
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        snprintf(from, sizeof from, "%s/%s", kind, own[i]);
        TRY(put_file(m, from, own[i]));
    }
    /* `kiln check-plugin` runs the workflow that is called as the .so; a model's wants weights, which its test makes.
     */
    char to[NAME_MAX_BYTES + 8];
    snprintf(from, sizeof from, "%s/test.yaml", kind);
    snprintf(to, sizeof to, "%s.yaml", strcmp(kind, "model") == 0 ? "test" : m->names->hyphens);
    TRY(put_file(m, from, to));
    /* C++ has a template of its own where kiln.hpp has what it takes; else C's is C++ too. */
    snprintf(from, sizeof from, "%s/%s_template.%s", kind, kind, strrchr(m->source, '.') + 1);
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", m->templates, from) >= (int)sizeof path || !file_exists(path))
        snprintf(from, sizeof from, "%s/%s_template.c", kind, kind);
    return put_file(m, from, m->source);
}

/* ---- what cannot be ---- */

/* The plugin that has the name already that the new one would bring; NULL: none. */
static const char *taken_by(const plugin_request *r, const char *kind, const names *n, const char **what)
{
    error e = {0};
    const char *owner = NULL;
    catalog *c = catalog_open(argument(r->args, "--plugins"), &e);
    if (!c) return NULL;
    if (strcmp(kind, "sampler") == 0) {
        *what = n->underscores, owner = registry_owner_of("sampler", n->underscores);
    } else {
        const node_info *node = catalog_find(c, n->camel);
        *what = n->camel, owner = node ? node->plugin->id : NULL;
    }
    owner = owner ? arena_strdup(r->memory, owner) : NULL;
    catalog_close(c);
    return owner;
}

static size_t find(const char *word, const char *const *list, size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(list[i], word) != 0) i++;
    return i;
}

static kiln_status refuse_name(const plugin_request *r, const char *kind, const char *name, error *e)
{
    char *hyphens = arena_strdup(r->memory, name);
    for (size_t i = 0; hyphens && hyphens[i]; i++)
        if (hyphens[i] == '_') hyphens[i] = '-';
    if (hyphens && is_name(hyphens) && strcmp(kind, "sampler") == 0)
        return error_set(e, KILN_ERR_INVALID,
                         "'%s' is no name for a plugin; call the plugin %s, and its sampler will be %s", name, hyphens,
                         name);
    return error_set(e, KILN_ERR_INVALID,
                     "'%s' is no name for a plugin; it is like soft-glow: small letters, digits and single hyphens, a "
                     "letter first, %d at most%s%s",
                     name, NAME_MAX_BYTES, hyphens && is_name(hyphens) ? "; call it " : "",
                     hyphens && is_name(hyphens) ? hyphens : "");
}

static kiln_status refuse(const plugin_request *r, const char *kind, const char *language, const names *n, error *e)
{
    const char *name = r->operand[0], *what, *owner, *id = argument(r->args, "--id");
    struct stat s;
    if (find(kind, kinds, N_KINDS) == N_KINDS) {
        const char *near = nearest_of(kind, kinds, N_KINDS);
        return error_set(e, KILN_ERR_INVALID, "--kind %s: it is node, sampler, guider, model or op%s%s%s", kind,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (find(language, languages, N_LANGUAGES) == N_LANGUAGES)
        return error_set(e, KILN_ERR_INVALID, "--lang %s: it is c, c++ or rust", language);
    if (!is_name(name)) return refuse_name(r, kind, name, e);
    if (id && (!name_is_valid(id) || !strchr(id, '.') || id[0] == '.' || strlen(id) >= sizeof n->id ||
               strncmp(id, "org.kiln.", strlen("org.kiln.")) == 0))
        return error_set(e, KILN_ERR_INVALID, "--id %s: an id begins with a domain of yours, as org.example.soft-glow",
                         id);
    if (lstat(name, &s) == 0)
        return error_set(e, KILN_ERR_INVALID, "there is a '%s' here already; take another name, or another folder",
                         name);
    if ((owner = taken_by(r, kind, n, &what)))
        return error_set(e, KILN_ERR_INVALID, "%s would bring '%s', and %s has that already; take another name", name,
                         what, owner);
    return KILN_OK;
}

/* ---- the action ---- */

static kiln_status make(const plugin_request *r, const char *kind, const char *language, const names *n, error *e)
{
    const char *folder = arena_printf(r->memory, ".%s.%ld", n->hyphens, (long)getpid());
    const char *source =
        arena_printf(r->memory, "%s.%s", n->underscores, endings[find(language, languages, N_LANGUAGES)]);
    making m = {.folder = folder, .names = n, .source = source, .e = e};
    if (!folder || !source) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (!install_find("../share/kiln/templates", m.templates, sizeof m.templates) &&
        !install_find("templates", m.templates, sizeof m.templates))
        return error_set(e, KILN_ERR_IO, "the templates are not installed beside this kiln (share/kiln/templates)");
    if (strcmp(language, "rust") == 0 && (!*n->crate || strpbrk(n->crate, "\"\\")))
        return error_set(e, KILN_ERR_IO, "the Rust crate is not installed beside this kiln (share/kiln/rust)");
    if (mkdir(folder, 0755) != 0) return error_set(e, KILN_ERR_IO, "no folder can be made here: %s", strerror(errno));
    kiln_status status = put_all(&m, kind);
    if (status == KILN_OK && rename(folder, n->hyphens) != 0)
        status = error_set(e, KILN_ERR_IO, "%s cannot be made: %s", n->hyphens, strerror(errno));
    if (status != KILN_OK) folder_remove(folder);
    return status;
}

/* Whether `kiln` is this kiln where people type it. */
static int is_on_the_path(void)
{
    const char *path = getenv("PATH"), *own = install_folder();
    while (own && path && *path) {
        char name[PATH_MAX];
        size_t n = strcspn(path, ":");
        if (snprintf(name, sizeof name, "%.*s/kiln", (int)n, path) < (int)sizeof name && access(name, X_OK) == 0) {
            char *real = path_real(name);
            int is_own = real && strncmp(real, own, strlen(own)) == 0 && strcmp(real + strlen(own), "/kiln") == 0;
            mem_free(real);
            return is_own;
        }
        path += n + (path[n] == ':');
    }
    return 0;
}

/* The test goes by names that its author changes. */
static void say_what_follows(const char *kind, const names *n)
{
    if (strcmp(kind, "sampler") == 0)
        print_text(stdout, "When the sampler's name or options change, change %s.yaml and test.sh too. Next:\n\n",
                   n->hyphens);
    else
        print_text(stdout,
                   "When the node's name or inputs change, change %s.yaml and test.sh too, and nodes in "
                   "kiln-plugin.yaml. Next:\n\n",
                   strcmp(kind, "model") == 0 ? "test" : n->hyphens);
}

int plugin_new(const plugin_request *r)
{
    const char *kind = argument(r->args, "--kind"), *language = argument(r->args, "--lang");
    error e = {0};
    if (!kind) kind = "node";
    if (!language) language = "c";
    names n = names_of(is_name(r->operand[0]) ? r->operand[0] : "x", argument(r->args, "--id"));
    if (strcmp(language, "rust") == 0) find_crate(&n);
    if (refuse(r, kind, language, &n, &e) != KILN_OK || make(r, kind, language, &n, &e) != KILN_OK)
        return plugin_fail("new", &e);
    print_text(stdout, "%s/%s.%s begins %s; what it is to be stands in it and in kiln-plugin.yaml.\n", n.hyphens,
               n.underscores, endings[find(language, languages, N_LANGUAGES)], described[find(kind, kinds, N_KINDS)]);
    say_what_follows(kind, &n);
    if (is_on_the_path())
        print_text(stdout, "  cd %s && make test\n  make install\n", n.hyphens);
    else
        print_text(stdout, "  cd %s && make test KILN=%s/kiln\n  make install KILN=%s/kiln\n", n.hyphens,
                   install_folder(), install_folder());
    return EXIT_DONE;
}
