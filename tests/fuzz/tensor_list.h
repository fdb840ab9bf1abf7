/* tensor_list.h - any bytes as lines of a tensor's name and its shape, "NAME D D D", and a set of such tensors with
 * holes for numbers: what the loaders of model files look at. Lines that make no tensor are left out. A first line
 * "{...}" is the folder's config.json, where a file of a name is asked for: the set is that of a folder then.
 */
#ifndef KILN_FUZZ_TENSOR_LIST_H
#define KILN_FUZZ_TENSOR_LIST_H

#include "rig.h"
#include "weights/weights.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef LIST_TEXT_MAX
#define LIST_TEXT_MAX 4096
#endif
enum { LIST_RANK = 5, LIST_DIM_MAX = 1 << 20 };

/* A line's tensor into the header; 0: it is none. */
static inline int list_add(FILE *json, const char *line, uint64_t *at)
{
    char name[200];
    long long dim[LIST_RANK];
    int used = 0, rank = 0;
    uint64_t bytes = 2;
    if (sscanf(line, "%199[A-Za-z0-9_./] %n", name, &used) != 1 || !used) return 0;
    for (const char *s = line + used; rank < LIST_RANK && sscanf(s, "%lld %n", &dim[rank], &used) == 1; s += used) {
        if (dim[rank] < 0 || dim[rank] > LIST_DIM_MAX) return 0;
        if (__builtin_mul_overflow(bytes, (uint64_t)dim[rank++], &bytes) || bytes > (uint64_t)1 << 36) return 0;
    }
    fprintf(json, "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[", *at || ftell(json) > 1 ? "," : "", name);
    for (int i = 0; i < rank; i++) fprintf(json, "%s%lld", i ? "," : "", dim[i]);
    fprintf(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at, (unsigned long long)(*at + bytes));
    *at += bytes;
    return 1;
}

static inline int list_write(const char *path, const char *lines)
{
    char *header = NULL, line[300];
    size_t n = 0;
    uint64_t at = 0;
    FILE *json = open_memstream(&header, &n), *out = fopen(path, "wb");
    if (!json || !out) return 0;
    fputc('{', json);
    for (const char *s = lines; *s; s += strcspn(s, "\n"), s += *s == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(s, "\n"), s);
        list_add(json, line, &at);
    }
    fputc('}', json);
    fclose(json);
    uint64_t length = n;
    int whole = fwrite(&length, sizeof length, 1, out) == 1 && fwrite(header, 1, n, out) == n && fflush(out) == 0 &&
                ftruncate(fileno(out), (off_t)(8 + length + at)) == 0;
    free(header);
    return fclose(out) == 0 && whole;
}

static char list_folder[] = "/tmp/kiln-fuzz-XXXXXX", list_path[64], list_config[64];

static inline void list_clean(void)
{
    unlink(list_path);
    unlink(list_config);
    rmdir(list_folder);
}

/* The set of these bytes, or NULL where the header itself is refused. */
static inline kiln_weights *list_open(const uint8_t *data, size_t size)
{
    static char text[LIST_TEXT_MAX];
    error e = {0};
    if (size >= sizeof text) return NULL;
    memcpy(text, data, size);
    text[size] = '\0';
    if (!list_path[0]) {
        if (!mkdtemp(list_folder)) return NULL;
        snprintf(list_path, sizeof list_path, "%s/model.safetensors", list_folder);
        snprintf(list_config, sizeof list_config, "%s/config.json", list_folder);
        atexit(list_clean);
    }
    unlink(list_config);
    if (text[0] == '{') {
        FILE *out = fopen(list_config, "wb");
        if (out) fwrite(text, 1, strcspn(text, "\n"), out), fclose(out);
    }
    return list_write(list_path, text) ? weights_open(text[0] == '{' ? list_folder : list_path, &e) : NULL;
}

#endif
