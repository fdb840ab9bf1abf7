// Of the build that counts branches (make coverage): a process that ends by _exit, or by a signal that it raises itself
// (crash_report.c), writes its counts first.
#ifndef KILN_EXIT_COUNTED_H
#define KILN_EXIT_COUNTED_H

void __gcov_dump(void);
void _Exit(int status) __attribute__((noreturn));

__attribute__((noreturn, unused)) static void exit_counted(int status)
{
    __gcov_dump();
    _Exit(status);
}
#define _exit exit_counted /* <unistd.h> then declares this name, which stays static */

int raise(int number);
unsigned alarm(unsigned seconds);

__attribute__((unused)) static int raise_counted(int number)
{
    alarm(5); /* the heap may be what is broken */
    __gcov_dump();
    return raise(number);
}
#define raise raise_counted

#endif
