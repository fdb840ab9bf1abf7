/* fake_vendor.c - see fake_vendor.h. Linked into each stand-in. */
#include "fake_vendor.h"

#include "tensor/dtype.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_vendor_host fake_host;
extern const char fake_vendor_name[];

typedef struct kept kept;
struct kept {
    kept *next;
    void (*call)(void *);
    char arg[];
};
enum { THINGS = 65536 };
static struct {
    pthread_mutex_t lock;
    struct {
        const char *kind;
        void *at;
    } thing[THINGS];
    size_t n;
    kept *kept;
    fake_vendor_report report;
    int64_t fail_at;
} my = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_at = -1};

int fake_vendor_called(void)
{
    pthread_mutex_lock(&my.lock);
    my.report.calls++;
    int fails = my.fail_at == 0;
    if (my.fail_at >= 0) my.fail_at--;
    pthread_mutex_unlock(&my.lock);
    return fails;
}

void fake_vendor_fault(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&my.lock);
    if (my.report.faults++ < 10) {
        printf("  %s: ", fake_vendor_name);
        vprintf(format, list);
        printf("\n");
    }
    pthread_mutex_unlock(&my.lock);
    va_end(list);
}

/* ---- things ---- */

void *fake_vendor_make(const char *kind, size_t bytes)
{
    void *at = calloc(1, bytes);
    pthread_mutex_lock(&my.lock);
    if (at && my.n < THINGS) my.thing[my.n].kind = kind, my.thing[my.n++].at = at;
    pthread_mutex_unlock(&my.lock);
    return at;
}

static size_t find(const char *kind, const void *thing)
{
    for (size_t i = my.n; i-- > 0;)
        if (my.thing[i].at == thing && strcmp(my.thing[i].kind, kind) == 0) return i;
    return THINGS;
}

void *fake_vendor_look(const char *kind, const void *thing)
{
    pthread_mutex_lock(&my.lock);
    size_t i = find(kind, thing);
    void *at = i < THINGS ? my.thing[i].at : NULL;
    pthread_mutex_unlock(&my.lock);
    if (!at) fake_vendor_fault("%s: no such %s", thing ? "after its end" : "NULL", kind);
    return at;
}

int fake_vendor_destroy(const char *kind, void *thing)
{
    if (!fake_vendor_look(kind, thing)) return 0;
    pthread_mutex_lock(&my.lock);
    my.thing[find(kind, thing)] = my.thing[my.n - 1];
    my.n--;
    pthread_mutex_unlock(&my.lock);
    free(thing);
    return 1;
}

/* ---- work ---- */

static void do_work(void *arg)
{
    kept *k = arg;
    k->call(k->arg);
}

int fake_vendor_enqueue(cudaStream_t stream, void (*call)(void *), const void *arg, size_t bytes)
{
    kept *k = malloc(sizeof *k + bytes);
    if (!k || !fake_host.enqueue) return free(k), 0;
    k->call = call;
    memcpy(k->arg, arg, bytes);
    pthread_mutex_lock(&my.lock);
    k->next = my.kept, my.kept = k;
    pthread_mutex_unlock(&my.lock);
    if (fake_host.enqueue(stream, do_work, k) != cudaSuccess) return 0;
    my.report.products++;
    return 1;
}

int fake_vendor_holds(const char *what, const void *p, size_t bytes)
{
    if (fake_host.holds(p, bytes)) return 1;
    fake_vendor_fault("%s: %zu bytes that are no memory of the device, or not any more", what, bytes);
    return 0;
}
void fake_vendor_happened(void) { my.report.happened++; }

/* ---- numbers ---- */

size_t fake_size(int type) { return type == FAKE_F32 ? 4 : 2; }
float fake_load(const void *p, int type, int64_t i)
{
    if (type == FAKE_F32) return ((const float *)p)[i];
    uint16_t bits = ((const uint16_t *)p)[i];
    return type == FAKE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}
void fake_store(void *p, int type, int64_t i, float v)
{
    if (type == FAKE_F32)
        ((float *)p)[i] = v;
    else
        ((uint16_t *)p)[i] = type == FAKE_BF16 ? bf16_from_f32(v) : f16_from_f32(v);
}

/* ---- for the test ---- */

static void connect_to(const fake_vendor_host *host) { fake_host = *host; }
static void fail_at(int64_t k) { my.fail_at = k; }
static fake_vendor_report report(void)
{
    fake_vendor_report r = my.report;
    for (size_t i = 0; i < my.n; i++) r.live += strcmp(my.thing[i].kind, "handle") != 0;
    return r;
}
static void forget(void)
{
    while (my.kept) {
        kept *k = my.kept;
        my.kept = k->next;
        free(k);
    }
}

__attribute__((visibility("default"))) extern const fake_vendor fake_vendor_table;
const fake_vendor fake_vendor_table = {
    .name = fake_vendor_name, .connect = connect_to, .fail_at = fail_at, .report = report, .forget = forget};
