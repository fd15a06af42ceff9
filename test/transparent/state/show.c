// SPDX-License-Identifier: Apache-2.0
/*
 * show [ARG...]
 *
 * Prints all that a process can tell of what it was given: one "FIELD<tab>VALUE" a line.
 * What differs between any two processes, such as the pid, is left out or said in words.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

static void quoted(const char *field, const char *value)
{
	printf("%s\t", field);
	for (; *value; value++)
		if (isprint((unsigned char)*value) && *value != '\\')
			putchar(*value);
		else
			printf("\\x%02x", (unsigned char)*value);
	putchar('\n');
}

static void number(const char *field, long value)
{
	if (value == -1 && errno)
		printf("%s\t%s\n", field, strerror(errno));
	else
		printf("%s\t%ld\n", field, value);
	errno = 0;
}

static void words(int argc, char **argv)
{
	char field[32];
	number("argc", argc);
	for (int i = 0; i < argc; i++) {
		snprintf(field, sizeof field, "argv[%d]", i);
		quoted(field, argv[i]);
	}
	for (int i = 0; environ[i]; i++)
		quoted("env", environ[i]);
}

/* A file of /proc/self as it is, a field for each line. */
static void file(const char *name)
{
	char path[64], field[64], line[4096];
	snprintf(path, sizeof path, "/proc/self/%s", name);
	FILE *f = fopen(path, "re");
	if (!f) {
		number(name, -1);
		return;
	}
	for (int i = 0; fgets(line, sizeof line, f); i++) {
		line[strcspn(line, "\n")] = 0;
		snprintf(field, sizeof field, i ? "%s[%d]" : "%s", name, i);
		quoted(field, line);
	}
	fclose(f);
}

/* The line of version 2. */
static void cgroup(void)
{
	char line[4096];
	FILE *f = fopen("/proc/self/cgroup", "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "0::", 3) == 0) {
			line[strcspn(line, "\n")] = 0;
			quoted("cgroup", line + 3);
		}
	if (f)
		fclose(f);
}

/* Counters, sizes and pids differ between any two processes. */
static void status(void)
{
	static const char *const skipped[] = {"Pid", "Tgid", "Ngid", "PPid", "NStgid", "NSpid", "NSpgid", "NSsid", "FDSize",
					      "Threads", "SigQ", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"};
	char line[4096];
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f)) {
		bool skip = strncmp(line, "Vm", 2) == 0 || strncmp(line, "Rss", 3) == 0 || strncmp(line, "Huge", 4) == 0;
		char *value = strchr(line, ':');
		line[strcspn(line, "\n")] = 0;
		if (!value)
			continue;
		*value++ = 0;
		for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
			skip |= strcmp(line, skipped[i]) == 0;
		if (!skip)
			quoted(line, value);
	}
	if (f)
		fclose(f);
}

static void target(const char *name)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/self/%s", name);
	ssize_t n = readlink(path, text, sizeof text - 1);
	if (n < 0) {
		number(name, -1);
		return;
	}
	text[n] = 0;
	quoted(name, text);
}

static void entries(const char *dir)
{
	char path[64];
	struct dirent **found;
	snprintf(path, sizeof path, "/proc/self/%s", dir);
	int n = scandir(path, &found, NULL, versionsort);
	for (int i = 0; i < n; i++) {
		if (found[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%.10s/%.40s", dir, found[i]->d_name);
		struct stat st;
		int fd = atoi(found[i]->d_name);
		if (strcmp(dir, "fd") != 0)
			target(path);
		else if (fstat(fd, &st) == 0) { /* not scandir's own, which is closed */
			target(path);
			snprintf(path, sizeof path, "flags of fd %d", fd);
			number(path, fcntl(fd, F_GETFL));
		}
	}
}

static void kernel(void)
{
	errno = 0;
	number("nice", getpriority(PRIO_PROCESS, 0));
	number("scheduler", sched_getscheduler(0));
	struct sched_param param = {0};
	sched_getparam(0, &param);
	number("scheduling priority", param.sched_priority);
	number("I/O priority", syscall(SYS_ioprio_get, 1, 0));
	number("securebits", prctl(PR_GET_SECUREBITS));
	int death = 0;
	prctl(PR_GET_PDEATHSIG, &death);
	number("parent death signal", death);
	number("timer slack", prctl(PR_GET_TIMERSLACK));
	number("keep capabilities", prctl(PR_GET_KEEPCAPS));
	number("dumpable", prctl(PR_GET_DUMPABLE));
	number("no huge pages", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	number("I/O flusher", prctl(57 /* PR_GET_IO_FLUSHER */, 0, 0, 0, 0));
	number("machine check policy", prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
	number("secure mode", getauxval(AT_SECURE));
	int reaper = 0;
	prctl(PR_GET_CHILD_SUBREAPER, &reaper);
	number("subreaper", reaper);
	struct itimerval timer = {0};
	getitimer(ITIMER_REAL, &timer);
	number("alarm pending", timer.it_value.tv_sec || timer.it_value.tv_usec);
}

static void keyring(void)
{
	char text[256] = "";
	if (syscall(SYS_keyctl, 6 /* KEYCTL_DESCRIBE */, -3 /* session */, text, sizeof text - 1) < 0)
		snprintf(text, sizeof text, "%s", strerror(errno));
	quoted("session keyring", text);
	errno = 0;
}

static void relations(void)
{
	char comm[64] = "", path[64];
	snprintf(path, sizeof path, "/proc/%d/comm", getppid());
	FILE *f = fopen(path, "re");
	if (f && fgets(comm, sizeof comm, f))
		comm[strcspn(comm, "\n")] = 0;
	if (f)
		fclose(f);
	quoted("parent", comm);
	quoted("process group", getpgrp() == getpid() ? "own" : "another's");
	number("session", getsid(0));
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	quoted("controlling terminal", tty < 0 ? strerror(errno) : "yes");
	if (tty >= 0)
		quoted("in the foreground", tcgetpgrp(tty) == getpgrp() ? "yes" : "no");
	close(tty);
	quoted("setsid", setsid() < 0 ? strerror(errno) : "works");
	errno = 0;
}

int main(int argc, char **argv)
{
	static const char *const files[] = {"limits",  "oom_score_adj", "coredump_filter", "personality", "attr/current", "loginuid",
					    "uid_map", "gid_map",	"setgroups",	   "comm"};
	words(argc, argv);
	entries("fd"); /* before we open anything that stays */
	status();
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		file(files[i]);
	cgroup();
	target("cwd");
	target("root");
	target("exe");
	entries("ns");
	kernel();
	keyring();
	relations();
	return 0;
}
