/* Reads the processor's time stamp counter, as it is and beside the kernel's clock. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static unsigned long clock_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ul + time.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned processor;
    unsigned long counter = __rdtsc(), clock = clock_ns();
    usleep(500000);
    counter = __rdtscp(&processor) - counter;
    clock = clock_ns() - clock;
    printf("%lu %lu %u\n", counter, clock, processor);

    /* A loop that waits for it: 20 ms. */
    unsigned long start = __rdtsc();
    while (__rdtsc() < start + 20000000)
        ;
    clock = clock_ns();
    printf("%lu\n", clock);
    fflush(stdout);
    /* Another fault stays one. */
    __asm__ volatile("hlt");
    return 0;
}
