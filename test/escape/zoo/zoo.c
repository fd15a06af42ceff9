// SPDX-License-Identifier: Apache-2.0
/*
 * zoo [--register SOCK] [--sibling DIR] [--scratch DIR] [--target WHAT] [--nice N] MODE
 * zoo --list
 *
 * A mode whose name has a number is there with any other number as well. Special modes, which need
 * a test of their own, are not listed.
 *
 * Starts the members of one mode and echoes its stdin until that ends. With
 * --register each process sends a pidfd of its own to the datagram socket SOCK
 * (@name: an abstract one) before it does anything else (but for the
 * mode stop-parent-first): whatever it does later to its session, parent,
 * environment, descriptors or group, the test holds it. The messages are
 * "main PID MODE MCPSCOPE_ID", "born PID MODE/ROLE", "ready", "error TEXT".
 *
 * No process signals anything but its own children, and in the modes that say
 * so the main process's parent. All of them end by themselves after LIFE_SECONDS.
 */
#include "zoo.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct mode *const families[] = {
	process_modes, signal_modes, ring_modes, cgroup_modes, namespace_modes, intruder_modes,
};

#define EACH_MODE(m) \
	for (size_t f = 0; f < sizeof families / sizeof *families; f++) \
		for (const struct mode *m = families[f]; m->name; m++)

const char *mode_name, *sibling_group, *scratch_group, *target;
int parent_pidfd = -1, mode_number;

static int list(void)
{
	EACH_MODE(m)
		if (families[f] != intruder_modes)
			printf("%-18s %s %s\n", m->name, m->at_eof == ENDS ? "ends " : "stays", m->what);
	return 0;
}

static const char *number_in(const char *name)
{
	return name + strcspn(name, "0123456789");
}

static const struct mode *find(const char *name)
{
	const char *number = number_in(name);
	EACH_MODE(m) {
		size_t kind = number_in(m->name) - m->name;
		if (kind == (size_t)(number - name) && strncmp(m->name, name, kind) == 0 && (m->name[kind] == 0) == (*number == 0))
			return m;
	}
	fprintf(stderr, "zoo: no mode %s (zoo --list)\n", name);
	exit(2);
}

static void options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc - 1; i += 2) {
		if (strcmp(argv[i], "--register") == 0)
			register_at(argv[i + 1]);
		else if (strcmp(argv[i], "--sibling") == 0)
			sibling_group = argv[i + 1];
		else if (strcmp(argv[i], "--scratch") == 0)
			scratch_group = argv[i + 1];
		else if (strcmp(argv[i], "--nice") == 0)
			setpriority(PRIO_PROCESS, 0, atoi(argv[i + 1]));
		else if (strcmp(argv[i], "--target") == 0)
			target = argv[i + 1];
		else {
			fprintf(stderr, "zoo: unknown option %s\n", argv[i]);
			exit(2);
		}
	}
}

/* A pidfd can't come to mean the process that we are given to when our parent
 * dies; a pid read later would. Nobody harms pid 1. */
static void know_parent(void)
{
	pid_t parent = getppid();
	if (parent <= 1)
		return;
	parent_pidfd = syscall(SYS_pidfd_open, parent, 0);
	if (getppid() != parent)
		parent_pidfd = -1;
}

/* Our server's guard, by its name; 0 if it is dead, or hidden. */
pid_t find_guard(void)
{
	char want[32], path[64], name[32];
	const char *id = getenv("MCPSCOPE_ID");
	pid_t found = 0;
	DIR *processes = opendir("/proc");
	snprintf(want, sizeof want, "guard-%s\n", id ? id : "");
	for (struct dirent *e; processes && found == 0 && (e = readdir(processes));) {
		pid_t pid = atoi(e->d_name);
		snprintf(path, sizeof path, "/proc/%d/comm", pid);
		FILE *f = pid > 0 ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fgets(name, sizeof name, f) && strcmp(name, want) == 0)
			found = pid;
		fclose(f);
	}
	if (processes)
		closedir(processes);
	return found;
}

int signal_guard(int sig)
{
	pid_t pid = find_guard();
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pid == 0 || pidfd < 0 || find_guard() != pid)
		return -1;
	int done = syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
	close(pidfd);
	return done;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc < 2 || argc % 2) {
		fprintf(stderr, "usage: zoo [--register SOCK] [--sibling DIR] [--scratch DIR] [--target WHAT] MODE | --list\n");
		return 2;
	}
	const struct mode *m = find(argv[argc - 1]);
	mode_name = argv[argc - 1];
	mode_number = atoi(number_in(mode_name));
	options(argc, argv);
	start_life();
	know_parent();
	if (m->first)
		m->first();
	born(NULL);
	if (m->start)
		m->start();
	say("ready");
	if (m->afterwards)
		m->afterwards();
	serve(m->at_eof);
}
