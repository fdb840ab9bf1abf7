/* cu_shim.cpp - see cu_shim.h: fibers, barriers, exchanges, shared memory, asynchronous copies. */
#include "cu_shim.h"
#include "cu_shim_mma.h"
#include "cu_shim_wgmma.h"
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#if defined __SANITIZE_ADDRESS__
#define CU_EMU_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define CU_EMU_ASAN 1
#endif
#endif
#ifdef CU_EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined __x86_64__
#include <ucontext.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(start, end) 0u
#endif

extern unsigned char __start_cu_shared[] __attribute__((weak)), __stop_cu_shared[] __attribute__((weak));

namespace
{

enum { THREADS_TOP = 1024, STACK = 64 << 10, STACK_GUARD = 4096, SHARED_TOP = 227 << 10, SHARED_GUARD = 1024 };
enum { SHARED_USUAL = 48 << 10 };   /* what a launch gets that did not ask for more */
const uint16_t guard_word = 0xFFA5; /* not a number in f32, bf16 and f16: reading beside shared memory shows as well */

typedef enum { READY, AT_BARRIER, AT_EXCHANGE, AT_PHASE, DONE } fiber_state;

struct count {
    uint64_t launches, blocks;
};
struct copy {
    void *to;
    const void *from;
    int there;
    unsigned group;
};

/* A barrier in shared memory. */
struct phases {
    uint32_t arrivals, missing, parity; /* of each phase; of this one */
    int64_t bytes;                      /* that this one waits for */
    int published;
    unsigned by; /* the thread that made it */
};
/* What a copy engine was asked for. */
struct box {
    fake_tensor map;
    unsigned rank;
    int at[5];
    uint32_t to, barrier;
};
struct product {
    uint64_t left, right;
    int f16;
    unsigned group;
};

struct fiber {
    cu_emu_thread now;
    fiber_state state;
    uint32_t mask; /* of the exchange that it waits in */
    unsigned char gives[CU_EMU_SLOT];
    unsigned groups; /* of copies so far */
    std::vector<copy> copies;
    uint32_t phase_of, parity; /* the barrier that it waits for */
    int begun;                 /* products may be added to sums that were written before */
    unsigned product_groups;
    std::vector<product> products; /* under way */
    std::vector<float> sums;       /* they belong to the products meanwhile */
    float *sums_at;
#if defined __x86_64__
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    void *asan;
};

struct {
    fiber thread[THREADS_TOP];
    unsigned threads;
    unsigned char *stacks;
    unsigned char slot[THREADS_TOP / 32][32 * CU_EMU_SLOT];
    alignas(1024) unsigned char dynamic[SHARED_TOP + 2 * SHARED_GUARD];
    unsigned char *async; /* the same as the copy engine and wgmma see it */
    std::map<uint32_t, phases> *barriers;
    std::vector<box> *boxes; /* under way */
    const std::function<void()> *work;
    const char *kernel;
    uint64_t random;
    unsigned faults;
    char last_fault[256];
    std::map<std::string, count> *ran;
    uint64_t seen[CU_EMU_KINDS];
#if defined __x86_64__
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    void *asan;
    const void *asan_stack;
    size_t asan_stack_bytes;
} emu;

uint64_t draw()
{
    uint64_t z = (emu.random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* `named` tells the thread too, not only its block. */
void fault(const char *text, const fiber *f = nullptr, bool named = true)
{
    char where[96] = "", thread[48] = "";
    if (f && named)
        snprintf(thread, sizeof thread, ", thread %u %u %u", f->now.thread.x, f->now.thread.y, f->now.thread.z);
    if (f) snprintf(where, sizeof where, " (block %u %u %u%s)", f->now.block.x, f->now.block.y, f->now.block.z, thread);
    snprintf(emu.last_fault, sizeof emu.last_fault, "%s: %s%s", emu.kernel, text, where);
    if (emu.faults++ < 10) printf("  %s\n", emu.last_fault);
}

/* ---- fibers ---- */

#if defined __x86_64__
extern "C" void cu_emu_switch(void **save, void *load);
__asm__(
    ".text\n.globl cu_emu_switch\n.hidden cu_emu_switch\n.type cu_emu_switch,@function\ncu_emu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size cu_emu_switch, .-cu_emu_switch\n");
#endif

unsigned char *stack_of(const fiber *f) { return emu.stacks + (size_t)(f - emu.thread) * STACK + STACK_GUARD; }
enum { STACK_USED = STACK - STACK_GUARD };

/* Each with a page below it that may not be touched. */
bool stacks_made()
{
    if (emu.stacks) return true;
    void *p = mmap(nullptr, (size_t)THREADS_TOP * STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    emu.stacks = static_cast<unsigned char *>(p);
    for (size_t i = 0; i < THREADS_TOP; i++) {
        mprotect(emu.stacks + i * STACK, STACK_GUARD, PROT_NONE);
        /* or valgrind takes a change to a stack nearby, as a second thread's may be, for a frame that ends */
        (void)VALGRIND_STACK_REGISTER(emu.stacks + i * STACK + STACK_GUARD, emu.stacks + (i + 1) * STACK - 1);
    }
    return true;
}

void leave(fiber *f, int for_good)
{
#ifdef CU_EMU_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &f->asan, emu.asan_stack, emu.asan_stack_bytes);
#else
    (void)for_good;
#endif
#if defined __x86_64__
    cu_emu_switch(&f->stack_pointer, emu.stack_pointer);
#else
    swapcontext(&f->context, &emu.context);
#endif
#ifdef CU_EMU_ASAN
    __sanitizer_finish_switch_fiber(f->asan, nullptr, nullptr);
#endif
}

void entered()
{
    fiber *f = emu.thread + cu_emu_now->number;
#ifdef CU_EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &emu.asan_stack, &emu.asan_stack_bytes);
#endif
    (*emu.work)();
    f->state = DONE;
    leave(f, 1);
    abort();
}

void prepare(fiber *f)
{
#if defined __x86_64__
    void **top = reinterpret_cast<void **>(stack_of(f) + STACK_USED) - 2;
    top[0] = reinterpret_cast<void *>(&entered); /* returned into, with the stack as after a call */
    top[1] = nullptr;
    f->stack_pointer = top - 6;
    memset(f->stack_pointer, 0, 6 * sizeof(void *));
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack_of(f);
    f->context.uc_stack.ss_size = STACK_USED;
    f->context.uc_link = nullptr;
    makecontext(&f->context, entered, 0);
#endif
}

void go_on(fiber *f)
{
    cu_emu_now = &f->now;
#ifdef CU_EMU_ASAN
    __sanitizer_start_switch_fiber(&emu.asan, stack_of(f), STACK_USED);
#endif
#if defined __x86_64__
    cu_emu_switch(&emu.stack_pointer, f->stack_pointer);
#else
    swapcontext(&emu.context, &f->context);
#endif
#ifdef CU_EMU_ASAN
    __sanitizer_finish_switch_fiber(emu.asan, nullptr, nullptr);
#endif
}

/* ---- a block ---- */

/* All that the exchange of this fiber's warp waits for are there, and nobody of the warp has yet to read what the last
 * one gave. */
int exchange_whole(const fiber *f)
{
    const fiber *warp = emu.thread + f->now.number / 32 * 32;
    for (unsigned i = 0; i < 32; i++) {
        bool there = warp + i < emu.thread + emu.threads;
        if (there && warp[i].state == READY) return 0;
        if (!(f->mask >> i & 1)) continue;
        if (!there || warp[i].state != AT_EXCHANGE || warp[i].mask != f->mask) return 0;
    }
    return 1;
}

/* Everybody whom the exchange names has what the others gave; what it does not name is NaN. */
void exchange_done(const fiber *first)
{
    unsigned number = first->now.number / 32;
    uint32_t mask = first->mask;
    fiber *warp = emu.thread + number * 32;
    memset(emu.slot[number], 0xff, sizeof emu.slot[number]);
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        memcpy(emu.slot[number] + i * CU_EMU_SLOT, warp[i].gives, CU_EMU_SLOT);
        warp[i].state = READY;
    }
}

int all_done()
{
    for (unsigned i = 0; i < emu.threads; i++)
        if (emu.thread[i].state != DONE) return 0;
    return 1;
}

void bring_one();
void bring_some();
int phase_ended(const fiber *f);

/* 1: somebody may go on. Of a warp's exchanges one at a time: they share its slots. A barrier waits for ended threads
 * too, which chips since sm_70 do not, but CUDA's rule for conditional barriers does. */
int release_some()
{
    unsigned waiting = 0, able = 0;
    for (unsigned i = 0; i < emu.threads; i++) {
        const fiber *f = emu.thread + i;
        waiting += f->state == AT_BARRIER;
        if (f->state == AT_PHASE && phase_ended(f)) emu.thread[i].state = READY;
        able += f->state == READY;
        if (f->state != AT_EXCHANGE || !exchange_whole(f)) continue;
        exchange_done(f), able++;
        i |= 31;
    }
    if (able) return 1;
    if (!emu.boxes->empty() && !all_done()) return bring_one(), release_some();
    if (waiting < emu.threads) return 0;
    for (unsigned i = 0; i < emu.threads; i++) emu.thread[i].state = READY;
    return 1;
}

void say_stuck()
{
    for (unsigned i = 0; i < emu.threads; i++) {
        if (emu.thread[i].state == AT_BARRIER)
            return fault("a barrier that not all threads of the block reach", emu.thread + i);
        if (emu.thread[i].state == AT_PHASE) return fault("a phase of a barrier that does not end", emu.thread + i);
        if (emu.thread[i].state == AT_EXCHANGE)
            return fault("an instruction of a warp in which not all that it names take part", emu.thread + i);
    }
}

/* What hangs on a chip is said here, and the block is left as it is. */
void give_up()
{
    say_stuck();
#ifdef CU_EMU_ASAN
    for (size_t i = 0; i < THREADS_TOP; i++)
        __asan_unpoison_memory_region(emu.stacks + i * STACK + STACK_GUARD, STACK_USED);
#endif
}

/* Guards lie before and behind the `shared` bytes of dynamic shared memory, up to the next multiple of two. */
uint16_t *guard_at(size_t shared, int behind, size_t i)
{
    return reinterpret_cast<uint16_t *>(emu.dynamic + (behind ? SHARED_GUARD + (shared + 1) / 2 * 2 : 0)) + i;
}

void set_guards(size_t shared)
{
    for (size_t i = 0; i < SHARED_GUARD / 2; i++) *guard_at(shared, 0, i) = *guard_at(shared, 1, i) = guard_word;
}

void check_guards(size_t shared)
{
    bool whole = true;
    for (size_t i = 0; i < SHARED_GUARD / 2; i++)
        whole = whole && *guard_at(shared, 0, i) == guard_word && *guard_at(shared, 1, i) == guard_word;
    if (whole) return;
    fault("something was written beside the shared memory", emu.thread, false);
    set_guards(shared);
}

/* Who may go on, in a random order (Fisher and Yates). Warps whose bit is in `resting` wait until nobody else can:
 * without that all warps would go in step, and who reads what another warp has not written yet would never be early. */
unsigned draw_order(unsigned *order, uint32_t resting)
{
    unsigned n = 0;
    for (int all = 0; all < 2 && n == 0; all++)
        for (unsigned i = 0; i < emu.threads; i++)
            if (emu.thread[i].state == READY && (all || !(resting >> i / 32 & 1))) order[n++] = i;
    for (unsigned i = n; i > 1; i--) {
        unsigned k = (unsigned)(draw() % i), t = order[k];
        order[k] = order[i - 1], order[i - 1] = t;
    }
    return n;
}

/* ---- sm_90a: boxes, phases, products of warpgroups ---- */

int phase_ended(const fiber *f)
{
    auto b = emu.barriers->find(f->phase_of);
    return b != emu.barriers->end() && b->second.parity != f->parity;
}

void phase_counted(phases *b)
{
    if (b->missing || b->bytes) return;
    b->parity ^= 1, b->missing = b->arrivals;
}

/* Swizzle 128B: bits 4 to 6 of an address by bits 7 to 9. */
uint32_t exchanged_pieces(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

/* In the order of the box, innermost first; outside is 0. */
void bring(const box &b)
{
    const fake_tensor &m = b.map;
    uint32_t count[5] = {1, 1, 1, 1, 1}, rows = 1, bytes = m.box[0] * 2u;
    for (unsigned d = 1; d < b.rank; d++) count[d] = (m.box[d] + m.step[d] - 1u) / m.step[d], rows *= count[d];
    for (uint32_t row = 0; row < rows; row++) {
        const unsigned char *from = static_cast<const unsigned char *>(m.first);
        bool inside = true;
        uint32_t rest = row;
        for (unsigned d = 1; d < b.rank; d++) {
            int64_t x = b.at[d] + (int64_t)(rest % count[d]) * m.step[d];
            rest /= count[d];
            inside = inside && x >= 0 && x < (int64_t)m.size[d];
            if (inside) from += x * (int64_t)m.bytes[d - 1];
        }
        for (uint32_t i = 0; i < bytes; i += 2) {
            int64_t x = b.at[0] + (int64_t)i / 2;
            uint16_t v = 0;
            if (inside && x >= 0 && x < (int64_t)m.size[0]) memcpy(&v, from + x * 2, 2);
            uint32_t to = exchanged_pieces(b.to + row * 128 + i);
            memcpy(emu.dynamic + to, &v, 2), memcpy(emu.async + to, &v, 2);
        }
    }
    phases *p = &(*emu.barriers)[b.barrier];
    p->bytes -= (int64_t)rows * bytes;
    phase_counted(p);
}

void bring_one()
{
    size_t i = draw() % emu.boxes->size();
    box b = (*emu.boxes)[i];
    emu.boxes->erase(emu.boxes->begin() + (long)i);
    bring(b);
}
void bring_some()
{
    if (!emu.boxes->empty() && draw() % 256 == 0) bring_one();
}

void forget_async(size_t shared)
{
    if (!emu.async) emu.async = static_cast<unsigned char *>(malloc(sizeof emu.dynamic));
    memset(emu.async + SHARED_GUARD, 0xff, shared);
    emu.barriers->clear(), emu.boxes->clear();
}

void check_async()
{
    if (!emu.boxes->empty()) fault("a box that nobody waited for", emu.thread, false);
    for (unsigned i = 0; i < emu.threads; i++)
        if (emu.thread[i].state == DONE && !emu.thread[i].products.empty())
            return fault("products that nobody waited for", emu.thread + i);
}

/* 16 numbers of a tile's row: two pieces. */
void row_of_tile(float *out, uint32_t tile, uint32_t apart, unsigned row, int f16)
{
    uint32_t at = tile + row / 8 * apart + row % 8 * 128;
    for (unsigned piece = 0; piece < 2; piece++) {
        uint16_t v[8];
        memcpy(v, emu.async + exchanged_pieces(at + piece * 16), sizeof v);
        for (unsigned k = 0; k < 8; k++) out[piece * 8 + k] = f16 ? cu_emu_f16_of(v[k], 0) : cu_emu_bf16_of(v[k], 0);
    }
}

/* What this thread has of 64 x N sums. */
void multiply(fiber *f, const product &p)
{
    unsigned lane = f->now.number % 32, first = f->now.number / 32 % 4 * 16 + lane / 4;
    uint32_t tile[2], apart[2];
    const uint64_t given[2] = {p.left, p.right};
    for (int i = 0; i < 2; i++) {
        tile[i] = (uint32_t)(given[i] & 0x3fff) << 4, apart[i] = (uint32_t)(given[i] >> 32 & 0x3fff) << 4;
        if (given[i] >> 62 != 1 || (given[i] >> 49 & 7)) fault("a tile that is not of swizzle 128B", f);
    }
    float left[2][16], right[16];
    for (unsigned i = 0; i < 2; i++) row_of_tile(left[i], tile[0], apart[0], first + 8 * i, p.f16);
    for (size_t j = 0; j < f->sums.size() / 2; j++) {
        row_of_tile(right, tile[1], apart[1], (unsigned)(j / 2) * 8 + lane % 4 * 2 + (unsigned)(j % 2), p.f16);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned k = 0; k < 16; k++) f->sums[j / 2 * 4 + j % 2 + 2 * i] += left[i][k] * right[k];
    }
}

void run_block(dim3 block, dim3 block_dim, dim3 grid_dim, size_t shared)
{
    static unsigned order[THREADS_TOP];
    memset(emu.dynamic + SHARED_GUARD, 0xff, shared);
    if (__start_cu_shared) memset(__start_cu_shared, 0xff, (size_t)(__stop_cu_shared - __start_cu_shared));
    for (unsigned i = 0; i < emu.threads; i++) {
        fiber *f = emu.thread + i;
        f->now.thread = dim3(i % block_dim.x, i / block_dim.x % block_dim.y, i / block_dim.x / block_dim.y);
        f->now.block = block, f->now.block_dim = block_dim, f->now.grid_dim = grid_dim, f->now.number = i;
        f->state = READY, f->groups = f->product_groups = 0, f->begun = 0;
        f->copies.clear(), f->products.clear();
        prepare(f);
    }
    forget_async(shared);
    uint32_t resting = (uint32_t)draw();
    do {
        if (draw() % 16 == 0) resting = (uint32_t)draw();
        unsigned n = draw_order(order, resting);
        for (unsigned i = 0; i < n; i++) go_on(emu.thread + order[i]), bring_some();
    } while (release_some());
    if (!all_done()) give_up();
    check_async();
    check_guards(shared);
}

int launch_allowed(dim3 grid, dim3 block, size_t shared, size_t shared_allowed)
{
    const char *wrong = nullptr;
    if ((uint64_t)block.x * block.y * block.z > THREADS_TOP || block.z > 64)
        wrong = "a block of more than 1024 threads";
    else if (!block.x || !block.y || !block.z || !grid.x || !grid.y || !grid.z)
        wrong = "a launch of nothing";
    else if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7fffffffu)
        wrong = "a grid that is too large";
    else if (shared > SHARED_TOP)
        wrong = "more shared memory than there is";
    else if (shared > shared_allowed)
        wrong = "more shared memory than its launch may have: cudaFuncSetAttribute raises that";
    else if (!stacks_made())
        wrong = "no memory for the threads' stacks";
    if (wrong) fault(wrong);
    return !wrong;
}

} // namespace

cu_emu_thread *cu_emu_now;

void __syncthreads()
{
    fiber *f = emu.thread + cu_emu_now->number;
    f->state = AT_BARRIER;
    leave(f, 0);
}

void __syncwarp(uint32_t mask)
{
    uint32_t none = 0;
    cu_emu_exchange(mask, &none, sizeof none);
}

uint32_t cu_shared(const void *p)
{
    const unsigned char *at = static_cast<const unsigned char *>(p);
    if (at < emu.dynamic || at >= emu.dynamic + sizeof emu.dynamic)
        return fault("no address of dynamic shared memory", emu.thread + cu_emu_now->number), 0;
    return (uint32_t)(at - emu.dynamic);
}

void cu_mbarrier_init(cu_mbarrier *b, uint32_t arrivals)
{
    (*emu.barriers)[cu_shared(b)] = {arrivals, arrivals, 0, 0, 0, cu_emu_now->number};
}
void cu_mbarriers_fence()
{
    for (auto &b : *emu.barriers)
        if (b.second.by == cu_emu_now->number) b.second.published = 1;
    memcpy(emu.async, emu.dynamic, sizeof emu.dynamic); /* fence.proxy.async */
}
static phases *barrier_at(cu_mbarrier *b, uint32_t *at)
{
    static phases none;
    auto found = emu.barriers->find(*at = cu_shared(b));
    if (found != emu.barriers->end()) return &found->second;
    fault("a barrier that nobody initialised", emu.thread + cu_emu_now->number);
    return &(none = phases{1, 1, 0, 0, 1, 0});
}
void cu_mbarrier_arrive_expect(cu_mbarrier *b, uint32_t bytes)
{
    uint32_t at;
    barrier_at(b, &at)->bytes += bytes;
    cu_mbarrier_arrive(b);
}
void cu_mbarrier_arrive(cu_mbarrier *b)
{
    uint32_t at;
    phases *p = barrier_at(b, &at);
    if (!p->missing) return fault("more arrivals than a barrier counts", emu.thread + cu_emu_now->number);
    p->missing--;
    phase_counted(p);
}
void cu_mbarrier_wait(cu_mbarrier *b, uint32_t parity)
{
    fiber *f = emu.thread + cu_emu_now->number;
    uint32_t at;
    barrier_at(b, &at);
    f->phase_of = at, f->parity = parity, f->state = AT_PHASE;
    leave(f, 0);
}

void cu_emu_tma_load(void *to, const CUtensorMap *map, cu_mbarrier *b, const int *x, unsigned rank)
{
    fiber *f = emu.thread + cu_emu_now->number;
    box given = {};
    memcpy(&given.map, map, sizeof given.map);
    cu_emu_instruction(CU_EMU_BOX);
    given.rank = rank, given.to = cu_shared(to);
    if (!barrier_at(b, &given.barrier)->published) fault("a copy that counts on a barrier which was not published", f);
    if (given.map.whole != FAKE_TENSOR || given.map.rank != rank) return fault("a box of no such tensor", f);
    if (given.to % 1024) fault("a box whose place is no multiple of 1024 bytes", f);
    uint32_t bytes = 128;
    for (unsigned d = 0; d < rank; d++) {
        given.at[d] = x[d];
        if (d) bytes *= (given.map.box[d] + given.map.step[d] - 1u) / given.map.step[d];
    }
    if (given.to + bytes > sizeof emu.dynamic) return fault("a box beyond the shared memory", f);
    memset(emu.dynamic + given.to, 0xff, bytes), memset(emu.async + given.to, 0xff, bytes); /* from now on */
    emu.boxes->push_back(given);
}

void cu_wgmma_fence() { emu.thread[cu_emu_now->number].begun = 1; }
void cu_wgmma_commit_group()
{
    fiber *f = emu.thread + cu_emu_now->number;
    f->product_groups++, f->begun = 0;
}
void cu_emu_wgmma(float *sum, unsigned n, uint64_t left, uint64_t right, int f16)
{
    fiber *f = emu.thread + cu_emu_now->number;
    uint64_t mine[2] = {left, right}, first[2];
    cu_emu_instruction(CU_EMU_WGMMA);
    memcpy(first, cu_emu_exchange(0xffffffffu, mine, sizeof mine), sizeof first);
    if (memcmp(mine, first, sizeof mine)) fault("a warp's threads name different tiles", f);
    if (!f->begun) fault("a product before its sums are fenced", f);
    if (f->products.empty()) {
        f->sums.assign(sum, sum + n / 2), f->sums_at = sum;
        for (unsigned i = 0; i < n / 2; i++) sum[i] = NAN; /* until it is waited for */
    } else if (f->sums_at != sum)
        fault("products of other sums under way", f);
    f->products.push_back({left, right, f16, f->product_groups});
}
void cu_emu_wgmma_wait_group(unsigned groups)
{
    fiber *f = emu.thread + cu_emu_now->number;
    size_t done = 0;
    for (uint64_t n = draw() % 3; n > 0; n--) leave(f, 0); /* others go on meanwhile */
    while (done < f->products.size() && f->products[done].group + groups < f->product_groups)
        multiply(f, f->products[done++]);
    f->products.erase(f->products.begin(), f->products.begin() + (long)done);
    if (done && f->products.empty()) memcpy(f->sums_at, f->sums.data(), f->sums.size() * sizeof(float));
    cu_emu_exchange(0xffffffffu, &done, sizeof done); /* of a warp nobody goes on before all have read */
}

unsigned char *cu_emu_dynamic() { return emu.dynamic + SHARED_GUARD; }

const unsigned char *cu_emu_exchange(uint32_t mask, const void *mine, unsigned bytes)
{
    fiber *f = emu.thread + cu_emu_now->number;
    unsigned lane = cu_emu_lane();
    if (!(mask >> lane & 1)) {
        static unsigned char none[sizeof emu.slot[0]];
        fault("a thread takes part in an instruction of its warp that does not name it", f);
        return static_cast<unsigned char *>(memset(none, 0xff, sizeof none));
    }
    memcpy(f->gives, mine, bytes);
    f->state = AT_EXCHANGE, f->mask = mask;
    leave(f, 0);
    return emu.slot[f->now.number / 32];
}

int cu_emu_before_sm80() { return fake_cuda_major() < 8; }
void cu_emu_instruction(cu_emu_kind kind)
{
    static const char *const names[CU_EMU_KINDS] = {
        "mma.m16n8k16 of bf16", "mma.m16n8k16 of f16", "mma.m16n8k8 of f16", "cp.async", "wgmma",
        "cp.async.bulk.tensor"};
    emu.seen[kind]++;
    int has = kind == CU_EMU_MMA8_F16                      ? 1
              : kind == CU_EMU_WGMMA || kind == CU_EMU_BOX ? fake_cuda_major() == 9
                                                           : !cu_emu_before_sm80();
    if (has) return;
    char text[96];
    snprintf(text, sizeof text, "an instruction that the chip does not have: %s", names[kind]);
    fault(text, emu.thread + cu_emu_now->number);
}
uint64_t cu_emu_count(cu_emu_kind kind) { return emu.seen[kind]; }

void cu_emu_copy_later(void *to, const void *from, int there)
{
    fiber *f = emu.thread + cu_emu_now->number;
    if (((uintptr_t)to | (uintptr_t)from) & 15) fault("an asynchronous copy of 16 bytes that are not aligned", f);
    memset(to, 0xff, 16);
    f->copies.push_back({to, from, there, f->groups});
}
void cu_emu_copy_group() { emu.thread[cu_emu_now->number].groups++; }
void cu_emu_copy_wait(unsigned groups)
{
    fiber *f = emu.thread + cu_emu_now->number;
    size_t kept = 0;
    for (const copy &c : f->copies) {
        if (c.group + groups >= f->groups)
            f->copies[kept++] = c;
        else if (c.there)
            memcpy(c.to, c.from, 16);
        else
            memset(c.to, 0, 16);
    }
    f->copies.resize(kept);
}

void cu_emu_seed(uint64_t seed) { emu.random = seed; }
unsigned cu_emu_faults() { return emu.faults; }
const char *cu_emu_last_fault() { return emu.last_fault; }

/* By kernel: what cudaFuncSetAttribute gave it. */
static std::map<const void *, size_t> &allowed()
{
    static std::map<const void *, size_t> all;
    return all;
}
size_t cu_emu_shared_allowed(const void *kernel)
{
    auto found = allowed().find(kernel);
    return found == allowed().end() ? (size_t)SHARED_USUAL : found->second;
}
cudaError_t cu_emu_allow_shared(const void *kernel, enum cudaFuncAttribute attribute, int bytes)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || bytes < 0 || bytes > SHARED_TOP)
        return cudaErrorInvalidValue;
    allowed()[kernel] = (size_t)bytes > SHARED_USUAL ? (size_t)bytes : (size_t)SHARED_USUAL;
    return cudaSuccess;
}

void cu_emu_run(const char *name, dim3 grid, dim3 block, size_t shared, size_t shared_allowed,
                const std::function<void()> &thread)
{
    emu.kernel = name;
    if (!launch_allowed(grid, block, shared, shared_allowed)) return;
    set_guards(shared);
    emu.work = &thread;
    if (!emu.boxes) emu.boxes = new std::vector<box>, emu.barriers = new std::map<uint32_t, phases>;
    emu.threads = block.x * block.y * block.z;
    uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
    if (!emu.ran) emu.ran = new std::map<std::string, count>;
    count &ran = (*emu.ran)[name];
    ran.launches++, ran.blocks += n;
    uint64_t step = draw() % n | 1; /* blocks in some order: a step that meets them all */
    auto common = [](uint64_t a, uint64_t b) {
        while (b) {
            uint64_t r = a % b;
            a = b, b = r;
        }
        return a;
    };
    while (common(step, n) != 1) step++;
    uint64_t at = draw() % n;
    for (uint64_t i = 0; i < n; i++, at = (at + step) % n)
        run_block(dim3((unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y), (unsigned)(at / grid.x / grid.y)),
                  block, grid, shared);
}

/* Work may be done more than once (graphs), so it is kept until the device is closed. */
static std::vector<std::unique_ptr<std::function<void()>>> given;
static void do_work(void *arg) { (*static_cast<std::function<void()> *>(arg))(); }

cudaError_t cu_emu_give(cudaStream_t stream, std::function<void()> work)
{
    given.push_back(std::make_unique<std::function<void()>>(std::move(work)));
    return fake_cuda_call(stream, do_work, given.back().get());
}
void cu_emu_forget()
{
    given.clear();
    fake_cuda_forget();
}

uint64_t cu_emu_ran(const char *kernel, uint64_t *blocks)
{
    count sum = {0, 0};
    if (emu.ran)
        for (const auto &k : *emu.ran) {
            size_t from =
                k.first.find_first_not_of('('); /* with a comma among its arguments it was written in brackets */
            if (k.first == kernel || k.first.compare(from, strlen(kernel) + 1, std::string(kernel) + "<") == 0)
                sum.launches += k.second.launches, sum.blocks += k.second.blocks;
        }
    *blocks = sum.blocks;
    return sum.launches;
}

/* ---- f16 ---- */

extern "C" float f16_to_f32(uint16_t);
extern "C" uint16_t f16_from_f32(float);
float __half2float(__half h) { return f16_to_f32(h.bits); }
__half __float2half_rn(float f) { return __half{f16_from_f32(f)}; }
