/* test_goldens.c - ids and spans of every kind of tokenizer against tests/tokenizer/data
 * (scripts/parity_tokenizers.py): the answers of the libraries tokenizers, sentencepiece and transformers. Exact. */
#include "source_files.h"

#include <dirent.h>

/* "# KIND SPECIAL PATH=NAME ..." */
static kiln_tokenizer *open_line(char *line, uint32_t *special)
{
    source_files f = {.n = 0};
    char *save, why[KILN_TOKENIZER_WHY];
    strtok_r(line, " ", &save);
    const char *kind = strtok_r(NULL, " ", &save), *flag = strtok_r(NULL, " ", &save);
    *special = flag && flag[0] == '1';
    for (char *file; (file = strtok_r(NULL, " \n", &save));) {
        char *name = strchr(file, '=');
        if (!CHECK(name != NULL)) return NULL;
        *name++ = 0;
        if (!files_add(&f, file, name)) return NULL;
    }
    kiln_tokenizer *t = files_open(&f, kind && strcmp(kind, "-") != 0 ? kind : NULL, why);
    CHECK_MSG(t != NULL, "%s: %s", f.name[0], why);
    files_free(&f);
    return t;
}

static size_t from_hex(const char *s, char *out)
{
    size_t n = 0;
    for (unsigned byte; s[0] != '-' && sscanf(s, "%2x", &byte) == 1 && s[0] != ' '; s += 2) out[n++] = (char)byte;
    return n;
}

static int check_row(const kiln_tokenizer *t, uint32_t special, const char *row, const char *where)
{
    static char text[4096];
    size_t n = from_hex(row, text), i = 0;
    kiln_encoding e = encode_text(t, text, n, special, special);
    const char *at = strchr(row, ' ');
    int id, same = 1, used = 0;
    unsigned from, to;
    for (; at && sscanf(at, " %d:%u:%u%n", &id, &from, &to, &used) == 3; at += used, i++)
        same &= i < e.n && e.id[i] == id && e.from[i] == from && e.to[i] == to && e.weight[i] == 1;
    same &= i == e.n;
    CHECK_MSG(same, "%s: '%.*s': %zu tokens, %zu wanted, or others", where, n < 60 ? (int)n : 60, text, e.n, i);
    tokenizer_api.encoding_free(&e);
    return same;
}

static size_t check_file(const char *path)
{
    enum { SOURCES_MAX = 4 };
    kiln_tokenizer *t[SOURCES_MAX];
    uint32_t special[SOURCES_MAX];
    size_t n = 0, rows = 0, capacity = 0;
    char *line = NULL;
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "%s", path)) return 0;
    while (getline(&line, &capacity, f) > 0) {
        if (line[0] == '#' && n < SOURCES_MAX) {
            if (!(t[n] = open_line(line, &special[n]))) break;
            n++;
            continue;
        }
        for (size_t i = 0; i < n; i++) rows += (size_t)check_row(t[i], special[i], line, strrchr(path, '/') + 1);
    }
    for (size_t i = 0; i < n; i++) tokenizer_api.unref(t[i]);
    free(line);
    fclose(f);
    return rows;
}

static void test_ids_and_spans_equal_the_libraries(void)
{
    char folder[600], path[1200];
    size_t files = 0;
    snprintf(folder, sizeof folder, "%s/%s", test_root(), DATA);
    DIR *d = opendir(folder);
    REQUIRE(d != NULL);
    for (struct dirent *x; (x = readdir(d));) {
        if (!strstr(x->d_name, ".golden")) continue;
        snprintf(path, sizeof path, "%s%s", folder, x->d_name);
        CHECK_MSG(check_file(path) > 200, "%s: few rows, or not one was equal", x->d_name);
        files++;
    }
    closedir(d);
    CHECK(files >= 14);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_ids_and_spans_equal_the_libraries)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
