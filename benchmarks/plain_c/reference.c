// What a plain C program finds out about the memory system of an x86-64 CPU, as one JSON object on standard output.
//
//   gcc -O2 -o reference reference.c -lm && ./reference [CPU [SECONDS]]
//
// A floor to hold results of setebench against, of which it shares nothing. Two habits keep the figures repeatable:
// - Cycles are paired: multiplications of known length run right before and after, and the ratio counts. The clock
//   wanders within milliseconds, so that one calibration for all would be off by as much.
// - Everything is done once per round, and rounds go on for a minute: their spread is what another run may differ by.
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { KIB = 1024, MIB = KIB * KIB, LINE = 64, PAGE = 4096, LINES = PAGE / LINE, WINDOW = 4 * PAGE, FRESH = 16 };
enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 60, MOST_ROWS = 600, MOST_TIMES = 1000, MOST_LINES = 32 * KIB, MULS = 1000 };
static const size_t BIG = 128 * MIB, SMALL = 256 * MIB;  // bytes in large pages (where there are), and in 4 KiB ones
static char *big, *small;
static double ticks_per_ns;

static struct row { char name[48]; const char *unit; int n; double part, v[MOST_ROUNDS]; } rows[MOST_ROWS];
static int row_count;

// One more round's value of a row, NAN where this round did not show one; the row's value is this quantile of them.
__attribute__((format(printf, 4, 5)))
static void put_at(double part, double value, const char *unit, const char *format, ...) {
  char name[sizeof rows->name];
  va_list list;
  va_start(list, format);
  vsnprintf(name, sizeof name, format, list);
  va_end(list);
  struct row *r = rows;
  while (r < rows + row_count && strcmp(r->name, name)) r++;
  if (r == rows + row_count) { strcpy(r->name, name); r->unit = unit; r->part = part; row_count++; }
  r->v[r->n++] = value;
}
#define put(...) put_at(0.5, __VA_ARGS__)
// A busy sibling thread takes room and rate away in some rounds, and adds cycles, never the other way round: what
// counts is what good rounds show.
#define put_room(...) put_at(0.84, __VA_ARGS__)
#define put_time(...) put_at(0.16, __VA_ARGS__)

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double quantile(double *v, int n, double q) {
  qsort(v, n, sizeof *v, by_value);
  return n ? v[(int)((n - 1) * q + 0.5)] : NAN;
}
static double trimmed(double *v, int n, double cut) {  // mean without this fraction at each end
  double sum = 0;
  int begin = n * cut;
  qsort(v, n, sizeof *v, by_value);
  for (int i = begin; i < n - begin; i++) sum += v[i];
  return sum / (n - 2 * begin);
}

static void print_number(const char *before, double x) { printf(isfinite(x) ? "%s%.5g" : "%snull", before, x); }
static void print_row(struct row *r, const char *end) {
  double v[MOST_ROUNDS];
  int n = 0;
  for (int i = 0; i < r->n; i++) if (isfinite(r->v[i])) v[n++] = r->v[i];
  printf("  \"%s\": {\"unit\": \"%s\"", r->name, r->unit);
  print_number(", \"value\": ", 2 * n > r->n ? quantile(v, n, r->part) : NAN);  // else unclear
  print_number(", \"low\": ", quantile(v, n, 0.1));
  print_number(", \"high\": ", quantile(v, n, 0.9));
  for (int i = 0; i < r->n; i++) print_number(i ? ", " : ", \"rounds\": [", r->v[i]);
  printf("]}%s\n", end);
}

static uint64_t random_below(uint64_t n) {
  static uint64_t s = 88172645463325252ull;
  s ^= s << 13; s ^= s >> 7; s ^= s << 17;
  return (s >> 11) % n;
}
static inline uint64_t ticks(void) {
  uint32_t low, high;
  asm volatile("lfence\nrdtsc\nlfence" : "=a"(low), "=d"(high) :: "memory");
  return (uint64_t)high << 32 | low;
}
static inline void fence(void) { asm volatile("mfence\nlfence" ::: "memory"); }
static inline void load(const void *p) { asm volatile("mov (%0), %%rax" :: "r"(p) : "rax", "memory"); }
static inline void flush(const void *p) { asm volatile("clflush (%0)" :: "r"(p) : "memory"); }
static void wait_ticks(uint64_t n) { for (uint64_t begin = ticks(); ticks() - begin < n;); }
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static double mul_cycles = 3;  // latency of a multiplication: checked against additions, which take one everywhere
static void nothing(void) { asm volatile("" ::: "memory"); }
static void multiply(void) {
  for (int i = 0; i < MULS / 100; i++) asm volatile(".rept 100\nimul %%rax, %%rax\n.endr" ::: "rax");
}
static void add(void) {
  for (int i = 0; i < MULS / 100; i++) asm volatile(".rept 300\nadd %%rdx, %%rax\n.endr" ::: "rax");
}

struct timing { double cycles, ns; };
// Time of `parts` parts of work(), prepared outside of the interval: mean without the fraction `cut` of both ends.
// Where the two references differ by 2 %, something interrupted or the clock changed: dropped.
static struct timing paired(void (*prepare)(void), void (*work)(void), double parts, int times, double cut) {
  static double empty[MOST_TIMES], cycles[MOST_TIMES], ns[MOST_TIMES], ref[MOST_TIMES];
  double limit = seconds() + 1;
  int n = 0, all = 0;
  for (; all < times && (all % 16 || seconds() < limit); all++) {
    uint64_t t[5];
    prepare();
    t[0] = ticks(); nothing();
    t[1] = ticks(); multiply();
    t[2] = ticks(); work();
    t[3] = ticks(); multiply();
    t[4] = ticks();
    double before = t[2] - t[1], after = t[4] - t[3];
    empty[all] = t[1] - t[0];
    if (fabs(before - after) > 0.02 * before) continue;
    ref[n] = (before + after) / 2;
    cycles[n++] = t[3] - t[2];
  }
  if (n < 8) return (struct timing){ NAN, NAN };
  double overhead = trimmed(empty, all, 0.25);
  for (int i = 0; i < n; i++) {
    ns[i] = (cycles[i] - overhead) / ticks_per_ns / parts;
    cycles[i] = (cycles[i] - overhead) / (ref[i] - overhead) * MULS * mul_cycles / parts;
  }
  return (struct timing){ trimmed(cycles, n, cut), trimmed(ns, n, cut) };
}

static double timed_load(const void *p) {
  fence();
  uint64_t begin = ticks();
  load(p);
  return ticks() - begin;
}
// Ticks that distinguish a line in some cache from one in memory: this far between one just loaded and a flushed one.
static double threshold(double part) {
  double near[200], far[200];
  for (int i = 0; i < 200; i++) {
    char *p = small + random_below(SMALL / LINE) * LINE;
    flush(p);  // also loads its translation
    far[i] = timed_load(p);
    near[i] = timed_load(p);
  }
  return quantile(near, 200, 0.5) * (1 - part) + quantile(far, 200, 0.5) * part;
}

static char *at;   // where the chase is
static int steps;  // how far it goes; a multiple of 16
static void chase(void) {
  char *p = at;
  for (int i = 0; i < steps / 16; i++) asm volatile(".rept 16\nmov (%0), %0\n.endr" : "+r"(p) :: "memory");
  at = p;
}
static void shuffle(int *v, int n) {
  for (int i = 0; i < n; i++) v[i] = i;
  for (int i = n - 1; i > 0; i--) { int j = random_below(i + 1), t = v[i]; v[i] = v[j]; v[j] = t; }
}

// Time per load of a random cycle through n lines, one every `stride` bytes; with `spread` at changing lines of a page.
static struct timing cycle(char *arena, int n, size_t stride, int spread) {
  static int order[MOST_LINES];
  char *first = NULL, **link = &first;
  shuffle(order, n);
  for (int i = 0; i < n; i++) {
    *link = arena + order[i] * stride + (spread ? order[i] % LINES * LINE : 0);
    link = (char **)*link;
  }
  *link = at = first;
  steps = 1024;
  for (int i = 0; i < 3 * n; i += steps) chase();
  steps = n <= 512 ? 1024 : 256;
  return paired(nothing, chase, steps, 150, 0.25);
}

static int fitting(size_t stride) {  // how many lines at this stride stay in the first level
  double base = cycle(big, 4, stride, 0).cycles;
  for (int n = 5; n <= 48; n++) {  // one sample may be disturbed; three in a row would have to be
    int tries = 0;
    while (tries < 3 && !(cycle(big, n, stride, 0).cycles < base + 0.4)) tries++;
    if (tries == 3) return n - 1;
  }
  return 0;
}

static double l1_cycles, l2_cycles, l1_size, memory_cycles, memory_ns;  // of this round, for what is derived from them

static void first_level(void) {
  int half = fitting(PAGE / 2), page = fitting(PAGE), twice = fitting(2 * PAGE);
  // As many bytes at two strides: that is all there is. As many lines at two strides: they are those of one set.
  l1_size = page && abs(half - 2 * page) <= 2 ? page * PAGE : NAN;
  put_room(l1_size, "bytes", "cache.l1.size");
  put_room(page && page == twice ? page : NAN, "ways", "cache.l1.ways");
  double limit = threshold(0.5), line = NAN;
  for (int distance = 512; distance >= 8; distance /= 2) {
    int gone = 0;
    for (int i = 0; i < 60; i++) {
      char *p = small + random_below(SMALL / PAGE) * PAGE;
      load(p); load(p + distance); fence(); flush(p);
      gone += timed_load(p + distance) > limit;
    }
    if (gone > 30) break;  // the flush took it along: the same line
    line = distance;
  }
  put(line, "bytes", "cache.line_size");
}

static void flush_cycle(void) {
  char *p = at;
  for (int i = 0; i < steps; i++) { char *next = *(char **)p; flush(p); p = next; }
  fence();
}

static void latency(void) {
  double flat[3], cycles[8], ns[8];
  for (int size = 4 * KIB, flats = 0; size <= MIB; size *= 2)
    for (int bytes = size; bytes < 2 * size; bytes += size / 2) {
      struct timing t = cycle(big, bytes / LINE, LINE, 0);
      if (bytes == 8 * KIB) l1_cycles = t.cycles;
      if (bytes >= 96 * KIB && bytes <= 192 * KIB) flat[flats++] = t.cycles;  // behind any L1 and in any L2
    }
  put_time(l1_cycles, "cycles", "latency.l1");
  put_time(l2_cycles = quantile(flat, 3, 1) < 1.1 * flat[0] ? flat[1] : NAN, "cycles", "latency.l2");
  // Flushed lines are in memory, however large the last cache; one per page, and no prefetcher knows what is next.
  for (int k = 0; k < 8; k++) {
    cycle(big + random_below(32) * 2 * MIB, 32, 9 * PAGE, 1);
    steps = 32;
    struct timing t = paired(flush_cycle, chase, steps, 40, 0.25);
    cycles[k] = t.cycles; ns[k] = t.ns;
  }
  put(memory_cycles = quantile(cycles, 8, 0.5), "cycles", "latency.memory");
  put(memory_ns = quantile(ns, 8, 0.5), "ns", "latency.memory.ns");
}

// Windows of four pages hold twelve chains each, of five lines of every page in turn, no two of a 128-byte pair: so few
// at once, and in such an order, that no prefetcher knows what is next, and no cache takes them for a stream.
enum { CHAINS = 12, CHAIN = 4 + FRESH };
static int windows;
static char *line_of(int window, int chain, int i) {
  uint64_t hash = (window * 4 + i % 4 + 1) * 0x9E3779B97F4A7C15ull >> 40;
  int turn = chain * 5 + i / 4, pair = ((hash & 31) + turn * ((hash >> 5 & 15) * 2 + 1)) & 31;
  return big + (size_t)window * WINDOW + i % 4 * PAGE + (pair * 2 + ((hash >> 9 ^ turn >> 5) & 1)) * LINE;
}
static double build(size_t size) {
  windows = size / WINDOW;
  for (int k = 0; k < windows * CHAINS * CHAIN; k++) {
    int window = k / CHAIN / CHAINS, chain = k / CHAIN % CHAINS, i = k % CHAIN;
    *(char **)line_of(window, chain, i) = line_of(window, chain, (i + 1) % CHAIN);
  }
  return (double)windows * CHAINS * CHAIN * LINE;
}
// One more stop of a random traversal: the first lines of a chain, for their pages' translations.
static void enter_chain(void) {
  at = line_of(random_below(windows), random_below(CHAINS), 0);
  for (int i = 0; i < 4; i++) at = *(char **)at;
  fence();
}

// A traversal of chains in random order, with repetition, finds a line in a cache of C bytes with probability C over
// the size of all, whatever the replacement: what comes does not depend on what is held. (In a fixed order half come
// from beyond at C with LRU, at 1.4 C with random replacement.)
static void reach(void) {
  static const int kib[] = { 128, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
                             65536 };
  enum { N = sizeof kib / sizeof *kib, TRIALS = 400 };
  double limit = threshold(0.6), size[N], over[N], beyond[N], held[N], base = 0, highest = 0;
  int count = 0;
  for (int k = 0; k < N; k++) {
    double far = 0;
    size[k] = build((size_t)kib[k] * KIB);
    for (int i = 0; i < 2 * CHAINS * windows; i++) {  // two chains overlap: nothing waits for the end of one
      at = line_of(random_below(windows), random_below(CHAINS), 0);
      for (int j = 0; j < CHAIN; j++) at = *(char **)at;
    }
    steps = FRESH;
    struct timing t = paired(enter_chain, chase, FRESH, TRIALS, 0.02);
    for (int i = 0; i < TRIALS; i++) {
      enter_chain();
      for (int j = 0; j < FRESH; j++) { far += timed_load(at) > limit; at = *(char **)at; }
    }
    beyond[k] = far / (TRIALS * FRESH);
    over[k] = t.cycles + (l2_cycles - l1_cycles) * fmin(1, l1_size / size[k]);  // as if the first level held nothing
    if (k == 0) base = over[k];
    over[k] -= base;
    if (beyond[k] < 0.05) highest = fmax(highest, over[k]);
    if (beyond[k] > 0.25 && beyond[k] < 0.8) held[count++] = size[k] * (1 - beyond[k]);
  }
  put_room(count ? quantile(held, count, 0.5) : NAN, "bytes", "cache.last.reach");
  // Where the second level holds C of S bytes, loads take a * (1 - C / S) longer than its own: linear in 1 / S.
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (int k = 1; k < N; k++) {
    if (beyond[k] > 0.2 || over[k] < 0.3 * highest || highest < 5) continue;
    double u = 1 / (size[k] * (1 - beyond[k]));
    double v = (over[k] - beyond[k] * (memory_cycles - l2_cycles)) / (1 - beyond[k]);
    n++; x += u; y += v; xx += u * u; xy += u * v;
  }
  double slope = (n * xy - x * y) / (n * xx - x * x), a = (y - slope * x) / n;
  put_room(n >= 3 ? -slope / a : NAN, "bytes", "cache.l2.size");
  put(n >= 3 ? l2_cycles + a : NAN, "cycles", "latency.l3");
}

// Nine pages apart, no two pages share an entry, even where neighbours may, and all sets of a TLB are used alike.
static double tlb_cost(int n) { return cycle(small, n, 9 * PAGE, 1).cycles - cycle(small, n, LINE, 0).cycles; }

static void tlb(void) {
  static const int many[] = { 192, 256, 384, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304, 2560, 3072, 3584, 4096,
                              4608 };
  enum { N = sizeof many / sizeof *many };
  double cost[N], entries = NAN;
  for (int n = 16; n <= 144; n += 8) {
    put(cost[0] = tlb_cost(n), "cycles", "tlb.cost.%d", n);
    if (isfinite(entries) || cost[0] < 0.4 || tlb_cost(n) < 0.4 || tlb_cost(n) < 0.4) continue;
    for (entries = n - 8; entries < n - 1 && tlb_cost(entries + 1) < 0.4;) entries++;
  }
  put_room(entries, "entries", "tlb.l1.entries");
  for (int k = 0; k < N; k++) put(cost[k] = tlb_cost(many[k]), "cycles", "tlb.cost.%d", many[k]);
  double first = entries < 128 ? (cost[0] + cost[1]) / 2 : NAN, second = cost[N - 1];
  int rise[4];  // where a blurred step has risen by a quarter, a half, three quarters
  for (int again = 0; again < 3; again++) {
    for (int part = 1; part < 4; part++)
      for (rise[part] = N - 1; rise[part] && cost[rise[part] - 1] > first + part * (second - first) / 4;) rise[part]--;
    second = cost[rise[2] + 3 < N ? rise[2] + 3 : N - 1];  // soon behind: further on, caches miss the page tables
  }
  put_time(first, "cycles", "tlb.l1.miss_penalty");
  put_time(second > first + 8 ? second : NAN, "cycles", "tlb.l2.miss_penalty.apart");
  // Neighbouring pages share lines of the page table, which then are in the first cache.
  int n = many[rise[2] + 3 < N ? rise[2] + 3 : N - 1];
  double adjacent = cycle(small, n, PAGE, 1).cycles - cycle(small, n, LINE, 0).cycles;
  put_time(second > first + 8 ? adjacent : NAN, "cycles", "tlb.l2.miss_penalty.adjacent");
  for (int part = 1; part < 4; part++)
    put(second > first + 8 ? many[rise[part]] : NAN, "entries", "tlb.l2.entries.%d_percent", 25 * part);
}

static char other[LINE];  // what a loop that is expected to go on may load ahead of its end

static void misses_in_flight(int prefetch) {
  enum { MOST = 40, TIMES = 150, PAIRS = 32 * LINES / 2, LEFT = 7 };
  static double t[MOST][TIMES], curve[MOST + 1];
  static int pairs[PAIRS], turn[MOST];
  const char *name = prefetch ? "prefetch" : "demand", *p[MOST + 8];
  for (int r = 0; r < TIMES; r++) {
    shuffle(turn, MOST);
    shuffle(pairs, PAIRS);
    char *base = big + random_below(BIG / (32 * PAGE)) * 32 * PAGE;
    for (int k = 0; k < MOST; k++) {
      int n = turn[k] + 1, first = random_below(PAIRS - MOST);
      for (int i = 0; i < n; i++) flush(p[i] = base + (pairs[first + i] * 2 + random_below(2)) * LINE);
      for (int i = n; i < MOST + 8; i++) load(p[i] = other);
      fence();
      wait_ticks(300 + random_below(64));
      uint64_t begin = ticks();
      if (prefetch) for (int i = 0; i < n; i++) asm volatile("prefetcht0 (%0)" :: "r"(p[i]));
      else for (int i = 0; i < n; i++) load(p[i]);
      t[n - 1][r] = ticks() - begin;
      if (!prefetch) continue;
      // One that finds no entry may be dropped instead of waiting (Zen 4 drops the 21st now and then): then its line,
      // the last one, is missing when all others are long there.
      wait_ticks(4000);
      t[n - 1][r] += timed_load(p[n - 1]);
    }
  }
  // Of a low quantile, as what else needs an entry now and then only takes some away.
  for (int n = 1; n <= MOST; n++) put(curve[n] = quantile(t[n - 1], TIMES, 0.2), "ticks", "misses.%s.%d", name, n);
  // The knee: the last number below half the step between the line through seven points and the three behind them.
  double best = 0, knee = NAN;
  for (int k = LEFT; k <= MOST - 3; k++) {
    double slope = 0, mean = 0, jump = 0;
    for (int i = 0; i < LEFT; i++) { mean += curve[k - i] / LEFT; slope += (3 - i) * curve[k - i] / 28; }
    for (int i = 1; i <= 3; i++) jump += (curve[k + i] - mean - slope * (i + 3)) / 3;
    if (jump <= best) continue;
    best = jump;
    for (knee = k; knee < k + 3 && curve[(int)knee + 1] - mean - slope * (knee + 4 - k) < jump / 2;) knee++;
  }
  best /= memory_ns * ticks_per_ns;  // whoever waits for an entry waits for most of a latency
  put_room(best > 0.3 ? knee : NAN, "entries", "misses.%s.knee", name);
  put(best, "latencies", "misses.%s.step", name);
}

// Sixteen instructions per step, over `bytes` bytes, again and again over the first `mask` + 1.
#define EIGHT(form, w, o) form(0, o) form(1, o + w) form(2, o + 2 * w) form(3, o + 3 * w) form(4, o + 4 * w) \
  form(5, o + 5 * w) form(6, o + 6 * w) form(7, o + 7 * w)
#define KERNEL(name, w, form) \
  static void name(char *p, size_t mask, size_t bytes) { \
    for (size_t k = 0; k < bytes; k += 16 * w) \
      asm volatile(EIGHT(form, w, 0) EIGHT(form, w, 8 * w) :: "r"(p + (k & mask)) \
                   : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7"); \
  }
#define LOAD16(r, o) "movups " #o "(%0), %%xmm" #r "\n"
#define LOAD32(r, o) "vmovups " #o "(%0), %%ymm" #r "\n"
#define LOAD64(r, o) "vmovups " #o "(%0), %%zmm" #r "\n"
#define STORE16(r, o) "movups %%xmm" #r ", " #o "(%0)\n"
#define STORE32(r, o) "vmovups %%ymm" #r ", " #o "(%0)\n"
#define STORE64(r, o) "vmovups %%zmm" #r ", " #o "(%0)\n"
KERNEL(load16, 16, LOAD16) KERNEL(load32, 32, LOAD32) KERNEL(load64, 64, LOAD64)
KERNEL(store16, 16, STORE16) KERNEL(store32, 32, STORE32) KERNEL(store64, 64, STORE64)

static int width = 16;
static void (*kernels[2])(char *, size_t, size_t) = { load16, store16 }, (*kernel)(char *, size_t, size_t);
static size_t mask;
static void pass(void) { kernel(big, mask, MIB); }

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}
static char *memory(size_t bytes, int advice) {
  char *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) { perror("mmap"); exit(1); }
  madvise(p, bytes, advice);
  memset(p, 1, bytes);
  return p;
}

static void next(void) {  // one behind the other, over far more than any cache that a core has for itself
  static size_t offset;
  kernels[0](big + offset, -1, MIB);
  offset = (offset + MIB) % BIG;
}

static void bandwidth(void) {
  for (int i = 0; i < 4; i++) {
    kernel = kernels[i % 2];
    mask = (i < 2 ? 16 : 128) * KIB - 1;  // in any first level; in any second one and not in the first
    pass();
    struct timing t = paired(nothing, pass, MIB, 100, 0.25);
    put_room(1 / t.cycles, "bytes/cycle", "bandwidth.l%d.%s.%d", i / 2 + 1, i % 2 ? "store" : "load", width);
  }
  struct timing t = paired(nothing, next, MIB, 256, 0.25);
  put_room(1 / t.ns, "GB/s", "bandwidth.memory.load.%d.threads_1", width);
}

enum { FIRST = -3, LAST = 24, OFFSETS = LAST - FIRST + 1 };
enum { COUNTS = 7, STRIDES = 3, KINDS = 2 * STRIDES * COUNTS, MOST = 12 };
static const int counts[COUNTS] = { 1, 2, 3, 4, 6, 8, MOST }, strides[STRIDES] = { 1, 2, 4 };

#define FENCED "mov (%0), %%rax\nlfence\n"
__attribute__((noinline)) static void load_here(char *p) { asm volatile(FENCED :: "r"(p) : "rax", "memory"); }
__attribute__((noinline)) static void load_at(int k, char *p) {
  switch (k) {  // 32 bytes apart: other low bits. The comment in the text keeps compilers from merging them into one.
#define CASE(k) case k: asm volatile(".p2align 5\n# " #k "\n" FENCED :: "r"(p) : "rax", "memory"); break;
    CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11)
  }
}

// Ticks of a line of a random page after n accesses to that page. There are always as many, the first ones to another
// line, and one more address: a processor that expects a loop to go on would otherwise load the run's next line itself.
static double after(int start, int stride, int n, int distinct, int target) {
  char *run[MOST + 1], *page = small + random_below(SMALL / PAGE) * PAGE;
  for (int k = 0; k <= MOST; k++)
    run[k] = k < MOST - n || k == MOST ? other : page + (start + (k - MOST + n) * stride) * LINE;
  for (int i = 0; i < 36; i++) load_at(i % MOST, small + random_below(SMALL / LINE) * LINE);  // something else to track
  for (int i = 0; i < LINES; i++) flush(page + i * LINE);
  fence();
  if (distinct) for (int k = 0; k < MOST; k++) load_at(k, run[k]);
  else for (int k = 0; k < MOST; k++) load_here(run[k]);
  wait_ticks(1000 * ticks_per_ns);
  return timed_load(page + target * LINE);
}

static const char *kind_name(int kind, const char *what) {
  static char name[48];
  int stride = strides[kind / COUNTS % STRIDES], n = counts[kind % COUNTS];
  snprintf(name, sizeof name, "%s.stride_%d.%s_%d", kind < KINDS / 2 ? "one" : "distinct", stride, what, n);
  return name;
}

static void prefetchers(void) {
  enum { TIMES = 16 };
  for (int kind = 0; kind < KINDS; kind++) {
    int distinct = kind >= KINDS / 2, stride = strides[kind / COUNTS % STRIDES], n = counts[kind % COUNTS], lead = 0;
    int length = (n - 1) * stride;
    double limit = threshold(0.5);
    for (int o = 0; o < OFFSETS; o++) {
      int ahead = o + FIRST, room = LINES - length - (ahead > 0 ? ahead : 0) + FIRST, hits[2] = { 0 }, times[2] = { 0 };
      if (room < 2 || (ahead <= 0 && -ahead % stride == 0 && -ahead <= length)) continue;  // accessed itself
      for (int r = 0; r < TIMES; r++) {
        int start = random_below(room) - FIRST, target = start + length + ahead;
        int there = after(start, stride, n, distinct, target) < limit;
        hits[target & 1] += there; times[target & 1]++;
      }
      // Of either parity: that an access brings the other half of its 128-byte pair is no run ahead.
      if (ahead > 0 && 2 * hits[0] >= times[0] && 2 * hits[1] >= times[1]) lead = ahead;
    }
    put(lead, "lines", "prefetch.%s", kind_name(kind, "lead"));
  }
}

static void pace(void) {
  double t[400];
  for (int i = 0; i < 400; i++) {
    uint64_t begin = ticks();
    multiply();
    t[i] = ticks() - begin;
  }
  put(MULS * mul_cycles / quantile(t, 400, 0.5), "cycles/tick", "pace.cycles_per_tick");
}

int main(int argc, char **argv) {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  int own_cpu = argc > 1 ? atoi(argv[1]) : -1;
  for (int i = CPU_SETSIZE - 1; i >= 0 && own_cpu < 0; i--) if (CPU_ISSET(i, &set)) own_cpu = i;
  double most = argc > 2 ? atof(argv[2]) : 60, begin = seconds(), from;
  pin(own_cpu);
  if (__builtin_cpu_supports("avx512f")) { width = 64; kernels[0] = load64; kernels[1] = store64; }
  else if (__builtin_cpu_supports("avx2")) { width = 32; kernels[0] = load32; kernels[1] = store32; }
  big = memory(BIG, MADV_HUGEPAGE);
  small = memory(SMALL, MADV_NOHUGEPAGE);
  double since = seconds();
  from = ticks();
  while (seconds() < since + 0.2);
  ticks_per_ns = (ticks() - from) / (seconds() - since) / 1e9;
  double sums = NAN;
  for (int i = 0; i < 10 && !isfinite(sums); i++) sums = paired(nothing, add, 1, 200, 0.25).cycles;
  if (isfinite(sums)) mul_cycles = lround(3 * 3.0 * MULS / sums);
  int rounds = 0;
  do {
    first_level(); latency(); reach(); tlb(); misses_in_flight(0); misses_in_flight(1);
    bandwidth(); prefetchers(); pace();
  } while (++rounds < LEAST_ROUNDS || (rounds < MOST_ROUNDS && seconds() - begin < most));
  printf("{\"schema\": 1, \"cpu\": %d, \"rounds\": %d, \"seconds\": %.1f,\n", own_cpu, rounds,
         seconds() - begin);
  printf(" \"ticks_per_ns\": %.5f, \"multiplication_cycles\": %g,\n", ticks_per_ns, mul_cycles);
  printf(" \"rows\": {\n");
  for (int i = 0; i < row_count; i++) print_row(&rows[i], i < row_count - 1 ? "," : "");
  puts(" }}");
}
