/* device_host.c - the machine's own memory as a device; see device.h. Everything happens at once, so there is nothing
 * to wait for.
 */
#include "memory/device.h"

#include "base/memory_alloc.h"
#include "kiln/plugin.h"
#include "memory/weight_slabs.h"

#include <stdio.h>
#include <string.h>

static struct {
    memory_device base;
    device_traffic traffic;
} host;

static void host_close(memory_device *d) { (void)d; }

static const char *host_name(const memory_device *d)
{
    (void)d;
    return "this machine's memory";
}

/* A number in the first line of a small file; 0 when there is none ("max", no such file). */
static uint64_t number_in(const char *path)
{
    unsigned long long n = 0;
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%llu", &n) != 1) n = 0;
    if (f) fclose(f);
    return n;
}

static uint64_t meminfo(const char *field)
{
    char line[160];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0 && sscanf(line + strlen(field), ": %llu", &kib) == 1) break;
    if (f) fclose(f);
    return kib * 1024;
}

static kiln_status host_memory(memory_device *d, size_t *free_bytes, size_t *total_bytes, error *e)
{
    (void)d;
    uint64_t total = meminfo("MemTotal"), available = meminfo("MemAvailable");
    uint64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    if (!total || !available)
        return error_set(e, KILN_ERR_UNSUPPORTED,
                         "the system does not say how much memory is free (/proc/meminfo); say it with --memory");
    if (limit && limit < total) total = limit;
    if (limit && limit > used && limit - used < available) available = limit - used;
    *free_bytes = (size_t)available;
    *total_bytes = (size_t)total;
    return KILN_OK;
}

static kiln_status host_alloc(memory_device *d, size_t bytes, void **out, error *e)
{
    (void)d;
    *out = mem_pages(bytes);
    return *out ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "the system gives no %zu bytes", bytes);
}

static kiln_status host_alloc_weight(memory_device *d, size_t bytes, void **out, error *e)
{
    (void)d;
    *out = weight_slab_alloc(bytes);
    return *out ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "the system gives no %zu bytes", bytes);
}

static void host_release(memory_device *d, void *p)
{
    (void)d;
    weight_slab_free(p);
}

static kiln_status stream_new(memory_device *d, device_stream **out, error *e)
{
    (void)d, (void)e;
    *out = NULL;
    return KILN_OK;
}
static void stream_free(memory_device *d, device_stream *s) { (void)d, (void)s; }

static kiln_status event_new(memory_device *d, device_event **out, error *e)
{
    (void)d, (void)e;
    *out = NULL;
    return KILN_OK;
}
static void event_free(memory_device *d, device_event *s) { (void)d, (void)s; }

static kiln_status event_record(memory_device *d, device_event *v, device_stream *s, error *e)
{
    (void)d, (void)v, (void)s, (void)e;
    return KILN_OK;
}
static kiln_status stream_wait(memory_device *d, device_stream *s, device_event *v, error *e)
{
    (void)d, (void)v, (void)s, (void)e;
    return KILN_OK;
}
static kiln_status stream_sync(memory_device *d, device_stream *s, error *e)
{
    (void)d, (void)s, (void)e;
    return KILN_OK;
}
static kiln_status event_sync(memory_device *d, device_event *v, error *e)
{
    (void)d, (void)v, (void)e;
    return KILN_OK;
}

static kiln_status copy_in(memory_device *d, void *dst, const void *src, size_t bytes, device_stream *s, error *e)
{
    (void)d, (void)s, (void)e;
    memmove(dst, src, bytes);
    host.traffic.in += bytes;
    host.traffic.copies++;
    return KILN_OK;
}
static kiln_status copy_out(memory_device *d, void *dst, const void *src, size_t bytes, device_stream *s, error *e)
{
    (void)d, (void)s, (void)e;
    memmove(dst, src, bytes);
    host.traffic.out += bytes;
    host.traffic.copies++;
    return KILN_OK;
}

static device_traffic traffic(const memory_device *d)
{
    (void)d;
    return host.traffic;
}

static const device_table host_table = {
    .kind = KILN_CPU,
    .asynchronous = 0,
    .alignment = 64,
    .close = host_close,
    .name = host_name,
    .memory = host_memory,
    .alloc = host_alloc,
    .alloc_weight = host_alloc_weight,
    .release = host_release,
    .host_alloc = host_alloc,
    .host_release = host_release,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .record = event_record,
    .wait = stream_wait,
    .sync = stream_sync,
    .sync_event = event_sync,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .traffic = traffic,
};

memory_device *device_host(void)
{
    host.base.table = &host_table;
    return &host.base;
}
