// SPDX-License-Identifier: Apache-2.0
/* The escape zoo: one mode for each way to stay alive when the client is gone. */
#ifndef ZOO_H
#define ZOO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* What the main process does when its stdin ends. */
enum at_eof { ENDS, STAYS };

struct mode {
	const char *name;
	void (*first)(void);      /* before it registers; NULL: nothing */
	void (*start)(void);      /* makes the other members; NULL: there are none */
	void (*afterwards)(void); /* after "ready"; NULL: nothing */
	enum at_eof at_eof;
	const char *what;
};

extern const struct mode process_modes[], signal_modes[], ring_modes[], cgroup_modes[], namespace_modes[], intruder_modes[];

/* Given on the command line. */
extern const char *sibling_group; /* an existing group beside ours */
extern const char *scratch_group; /* where a fresh group may be made */
extern const char *target;        /* what a special mode works on */

/* register.c: every process tells who it is before it does anything else. */
void register_at(const char *sock);
void born(const char *role);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die(const char *what);

/*
 * The last resort, should a test run and its sandbox be killed at once: longer than any test may take, so that
 * no test can take it for a kill.
 */
enum { LIFE_SECONDS = 2 * 60 * 60 };

/* member.c */
void start_life(void);
void limit_life(void);
pid_t fork_member(const char *role);
pid_t member(const char *role, void (*run)(void));
void up(void);
void await_up(unsigned members);
void ignore_signals(void);
_Noreturn void park(void);
_Noreturn void stay(void);
_Noreturn void stay_in_new_session(void);
_Noreturn void serve(enum at_eof at_eof);

/* cgroups.c */
const char *own_group(void);
const char *server_group(void);
const char *cgroup_mount(void);
void make_group(const char *dir);
void move_to(const char *dir);
pid_t find_guard(void);
int signal_guard(int sig);
void write_file(const char *dir, const char *name, const char *text);
const char *parent_of(const char *group);
const char *below(const char *dir, const char *name);

extern const char *mode_name;
extern int mode_number;      /* in its name */
extern int parent_pidfd;     /* of the main process's parent, the launcher; or -1 */
extern atomic_uint *counter; /* shared by all members */

#endif
