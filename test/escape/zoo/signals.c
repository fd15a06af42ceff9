// SPDX-License-Identifier: Apache-2.0
/* Ways to stay alive that play with signals, stops and the parent. */
#include "zoo.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void ignore_term(void)
{
	signal(SIGTERM, SIG_IGN);
}

static void wait_until_stopped(pid_t child)
{
	int status;
	while (waitpid(child, &status, WUNTRACED) == child && !WIFSTOPPED(status))
		;
}

static void stopped_child(void)
{
	pid_t child = member("stopped", stay_in_new_session);
	await_up(1);
	kill(child, SIGSTOP);
	wait_until_stopped(child);
}

static void stop_myself(void)
{
	raise(SIGSTOP);
}

/* PTRACE_O_TRACEEXIT: a killed tracee stops once more on its way out and waits
 * there for its tracer. */
static void trace(void)
{
	pid_t child = member("traced", park);
	ignore_signals();
	if (ptrace(PTRACE_SEIZE, child, NULL, (void *)(long)PTRACE_O_TRACEEXIT) != 0)
		die("PTRACE_SEIZE");
	if (ptrace(PTRACE_INTERRUPT, child, NULL, NULL) != 0)
		die("PTRACE_INTERRUPT");
	waitpid(child, NULL, __WALL);
	up();
	park();
}

static void traced_child(void)
{
	member("tracer", trace);
	await_up(1);
}

enum { HANDLER_FORKS = 100 };

static void fork_some(int sig)
{
	(void)sig;
	for (int i = 0; i < 4; i++) {
		if (atomic_fetch_add(counter, 1) < HANDLER_FORKS && fork_member("forked by the handler") == 0)
			park();
	}
}

static void fork_on_signals(void)
{
	struct sigaction action = {.sa_handler = fork_some, .sa_flags = SA_NODEFER | SA_RESTART};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

static void handle_and_stay(void)
{
	setsid();
	fork_on_signals();
	up();
	park();
}

static void fork_on_term(void)
{
	member("session", handle_and_stay);
	fork_on_signals();
	await_up(1);
}

static pid_t pid_of_parent;

static int signal_parent(int sig)
{
	return syscall(SYS_pidfd_send_signal, parent_pidfd, sig, NULL, 0);
}

static void stay_with_session(void)
{
	ignore_signals();
	member("session", stay_in_new_session);
	await_up(1);
}

static void kill_parent(void)
{
	signal_parent(SIGKILL);
}

/* It is ready when its launcher has forked another one: if the launcher is killed before it does, nobody is left to
 * end the server. Below a gateway it has none of its own. */
static void kill_guard(void)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	stay_with_session();
	pid_t killed = find_guard();
	if (killed == 0)
		return;
	if (signal_guard(SIGKILL) != 0)
		die("kill the guard");
	for (pid_t now = killed; now == killed || now == 0; now = find_guard())
		nanosleep(&pause, NULL);
}

static void stop_guard(void)
{
	stay_with_session();
	signal_guard(SIGSTOP);
}

static void stop_parent(void)
{
	stay_with_session();
	signal_parent(SIGSTOP);
}

/* Its parent may not have told anybody yet that it has started us. */
static void stop_parent_first(void)
{
	signal_parent(SIGSTOP);
}

/* A program that has come up: it catches SIGWINCH, and sleeps. */
static bool parent_waits(void)
{
	char path[64], line[256], state = 0;
	unsigned long long caught = 0;
	snprintf(path, sizeof path, "/proc/%d/status", getppid());
	FILE *status = fopen(path, "re");
	if (status == NULL)
		die(path);
	while (fgets(line, sizeof line, status) != NULL) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "SigCgt: %llx", &caught);
	}
	fclose(status);
	return state == 'S' && (caught & 1ULL << (SIGWINCH - 1)) != 0;
}

/* Its parent has all that it starts with behind it. Nothing tells when, so it is read again and again, for as long as a
 * parent that never catches anything may take. */
static void stop_parent_late(void)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	stay_with_session();
	for (int read = 0, waits = 0; read < 5000 && waits < 20; read++) {
		waits = parent_waits() ? waits + 1 : 0;
		nanosleep(&pause, NULL);
	}
	signal_parent(SIGSTOP);
}

/* So often that a parent that is continued once hardly ever runs. */
static void keep_stopping(void)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000};
	ignore_signals();
	signal_parent(SIGSTOP);
	up();
	while (signal_parent(SIGSTOP) == 0)
		nanosleep(&pause, NULL);
	park();
}

static void stop_parent_for_ever(void)
{
	stay_with_session();
	member("stopper", keep_stopping);
	await_up(1);
}

/* Holds the threads that are not held yet, and returns how many those were. */
static int hold_threads(pid_t pid)
{
	int held = 0;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *tasks = opendir(path);
	if (tasks == NULL)
		die(path);
	for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
		pid_t thread = atoi(e->d_name);
		if (thread == 0 || ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
			continue;
		ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
		waitpid(thread, NULL, __WALL);
		held++;
	}
	closedir(tasks);
	return held;
}

/* A tracee in a stop is not continued by SIGCONT. Who may not trace it goes on without. */
static void hold_parent(void)
{
	ignore_signals();
	while (hold_threads(pid_of_parent) > 0)
		;
	up();
	park();
}

static void trace_parent(void)
{
	stay_with_session();
	pid_of_parent = getppid();
	member("tracer of the parent", hold_parent);
	await_up(1);
}

const struct mode signal_modes[] = {
	{"ignore-term", NULL, ignore_term, NULL, ENDS, "ignores SIGTERM"},
	{"ignore-eof", NULL, NULL, NULL, STAYS, "ignores the end of stdin"},
	{"ignore-both", NULL, ignore_signals, NULL, STAYS, "ignores the end of stdin and every asking signal"},
	{"stopped", NULL, stopped_child, NULL, ENDS, "a child that is stopped"},
	{"stopped-main", NULL, NULL, stop_myself, STAYS, "the main process stops itself"},
	{"traced", NULL, traced_child, NULL, ENDS, "a child in a ptrace stop; the tracer is a member"},
	{"fork-on-term", NULL, fork_on_term, NULL, STAYS, "forks four when asked to end, up to 100"},
	{"kill-parent", NULL, stay_with_session, kill_parent, STAYS, "kills its own parent"},
	{"kill-guard", NULL, kill_guard, NULL, STAYS, "kills its guard"},
	{"stop-guard", NULL, stop_guard, NULL, STAYS, "stops its guard"},
	{"stop-parent", NULL, stop_parent, NULL, STAYS, "stops its own parent"},
	{"stop-parent-late", NULL, stop_parent_late, NULL, STAYS, "stops its own parent when that has come up"},
	{"stop-parent-first", stop_parent_first, stay_with_session, NULL, STAYS, "stops its own parent before it does anything else"},
	{"trace-parent", NULL, trace_parent, NULL, STAYS, "holds its own parent in a ptrace stop"},
	{"stop-parent-loop", NULL, stop_parent_for_ever, NULL, STAYS, "stops its own parent again and again"},
	{0},
};
