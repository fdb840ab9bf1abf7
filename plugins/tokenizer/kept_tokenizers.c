/* kept_tokenizers.c - see kept_tokenizers.h. */
#include "kept_tokenizers.h"

#include <pthread.h>
#include <string.h>

typedef struct {
    char key[33];
    kiln_tokenizer *t; /* NULL: a free place */
} kept;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kept all[KEPT_TOKENIZERS]; /* the newest first */

kiln_tokenizer *tokenizer_ref(kiln_tokenizer *t)
{
    if (t) __atomic_add_fetch(&t->references, 1, __ATOMIC_RELAXED);
    return t;
}

void tokenizer_unref(kiln_tokenizer *t)
{
    if (t && __atomic_sub_fetch(&t->references, 1, __ATOMIC_ACQ_REL) == 0) tokenizer_free(t);
}

static size_t find(const char *key)
{
    size_t i = 0;
    while (i < KEPT_TOKENIZERS && !(all[i].t && strcmp(all[i].key, key) == 0)) i++;
    return i;
}

static void put_first(size_t i, kept one)
{
    memmove(all + 1, all, i * sizeof *all);
    all[0] = one;
}

kiln_tokenizer *kept_tokenizer(const char *key)
{
    kiln_tokenizer *t = NULL;
    pthread_mutex_lock(&lock);
    size_t i = find(key);
    if (i < KEPT_TOKENIZERS) put_first(i, all[i]), t = tokenizer_ref(all[0].t);
    pthread_mutex_unlock(&lock);
    return t;
}

void keep_tokenizer(const char *key, kiln_tokenizer *t)
{
    kept one = {.t = t}, gone[KEPT_TOKENIZERS] = {0};
    size_t bytes = 0;
    if (t->pool.bytes > KEPT_BYTES || strlen(key) >= sizeof one.key) return;
    strcpy(one.key, key);
    pthread_mutex_lock(&lock);
    if (find(key) == KEPT_TOKENIZERS) { /* two threads may have opened it */
        gone[0] = all[KEPT_TOKENIZERS - 1];
        tokenizer_ref(t), put_first(KEPT_TOKENIZERS - 1, one);
        for (size_t i = 0; i < KEPT_TOKENIZERS; i++) {
            if (all[i].t) bytes += all[i].t->pool.bytes;
            if (i > 0 && bytes > KEPT_BYTES) gone[i] = all[i], all[i] = (kept){0};
        }
    }
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < KEPT_TOKENIZERS; i++) tokenizer_unref(gone[i].t);
}
