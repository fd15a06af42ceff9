// SPDX-License-Identifier: Apache-2.0
/*
 * wear [WHAT VALUE...]... -- COMMAND...
 *
 * Puts on what a client may have given to its servers, in this order, and executes COMMAND.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int wear_directory(char **v) { return chdir(v[0]); }
static int wear_umask(char **v) { return umask(strtol(v[0], NULL, 8)), 0; }
static int wear_nice(char **v) { return setpriority(PRIO_PROCESS, 0, atoi(v[0])); }
static int wear_ioprio(char **v) { return syscall(SYS_ioprio_set, 1, 0, atoi(v[0]) << 13 | atoi(v[1])); }
static int wear_scheduler(char **v) { return sched_setscheduler(0, atoi(v[0]), &(struct sched_param){0}); }
static int wear_slack(char **v) { return prctl(PR_SET_TIMERSLACK, atol(v[0])); }
static int wear_personality(char **v) { return personality(strtol(v[0], NULL, 16)) < 0 ? -1 : 0; }
static int wear_nnp(char **v) { return prctl(PR_SET_NO_NEW_PRIVS, atoi(v[0]), 0, 0, 0); }
static int wear_pages(char **v) { return prctl(PR_SET_THP_DISABLE, atoi(v[0]), 0, 0, 0); }
static int wear_securebits(char **v) { return prctl(PR_SET_SECUREBITS, atoi(v[0])); }
static int wear_bound(char **v) { return prctl(PR_CAPBSET_DROP, atoi(v[0]), 0, 0, 0); }
static int wear_death(char **v) { return prctl(PR_SET_PDEATHSIG, atoi(v[0])); }
static int wear_alarm(char **v) { return alarm(atoi(v[0])), 0; }
static int wear_keyring(char **v) { return syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, v[0]) < 0 ? -1 : 0; }
static int wear_open(char **v) { return dup2(open("/dev/null", O_RDWR), atoi(v[0])); }
static int wear_copy(char **v) { return dup2(atoi(v[0]), atoi(v[1])); }
static int wear_closed(char **v) { return close(atoi(v[0])); }

static int wear_cpu(char **v)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(v[0]), &set);
	return sched_setaffinity(0, sizeof set, &set);
}

static int wear_limit(char **v)
{
	return setrlimit(atoi(v[0]), &(struct rlimit){strtoul(v[1], NULL, 10), strtoul(v[2], NULL, 10)});
}

static int wear_ignored(char **v) { return signal(atoi(v[0]), SIG_IGN) == SIG_ERR ? -1 : 0; }

static int wear_blocked(char **v)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, atoi(v[0]));
	return sigprocmask(SIG_BLOCK, &set, NULL);
}

static int wear_group(char **v) { return setgroups(1, &(gid_t){atoi(v[0])}); }

static int wear_user(char **v)
{
	return prctl(PR_SET_KEEPCAPS, 1) || setresgid(atoi(v[0]), atoi(v[0]), atoi(v[0])) || setresuid(atoi(v[0]), atoi(v[0]), atoi(v[0]));
}

/* Ambient, and so permitted, effective and inheritable after the execve. */
static int wear_ambient(char **v)
{
	int cap = atoi(v[0]);
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) < 0)
		return -1;
	data[cap / 32].inheritable |= 1u << cap % 32;
	data[cap / 32].effective |= 1u << cap % 32;
	return syscall(SYS_capset, &head, data) < 0 ? -1 : prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}

static int write_self(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	ssize_t n = write(fd, text, strlen(text));
	close(fd);
	return n < 0 ? -1 : 0;
}

static int wear_oom(char **v) { return write_self("/proc/self/oom_score_adj", v[0]); }
static int wear_dump(char **v) { return write_self("/proc/self/coredump_filter", v[0]); }

static const struct {
	const char *name;
	int values;
	int (*wear)(char **values);
} wardrobe[] = {
	{"directory", 1, wear_directory}, {"umask", 1, wear_umask},	{"nice", 1, wear_nice},	      {"ioprio", 2, wear_ioprio},
	{"scheduler", 1, wear_scheduler}, {"slack", 1, wear_slack},	{"nnp", 1, wear_nnp},	      {"personality", 1, wear_personality},
	{"pages", 1, wear_pages},	  {"securebits", 1, wear_securebits}, {"bound", 1, wear_bound}, {"alarm", 1, wear_alarm},
	{"keyring", 1, wear_keyring},	  {"open", 1, wear_open},	{"copy", 2, wear_copy},	      {"closed", 1, wear_closed},
	{"cpu", 1, wear_cpu},		  {"limit", 3, wear_limit},	{"ignored", 1, wear_ignored}, {"blocked", 1, wear_blocked},
	{"group", 1, wear_group},	  {"user", 1, wear_user},	{"ambient", 1, wear_ambient}, {"oom", 1, wear_oom},
	{"dump", 1, wear_dump},		  {"death", 1, wear_death},
};

/* put_on returns how many arguments it has used. */
static int put_on(char **args, int left)
{
	for (size_t i = 0; i < sizeof wardrobe / sizeof *wardrobe; i++)
		if (strcmp(args[0], wardrobe[i].name) == 0 && wardrobe[i].values < left) {
			if (wardrobe[i].wear(args + 1) < 0) {
				fprintf(stderr, "wear: %s %s: %s\n", args[0], args[1], strerror(errno));
				exit(70);
			}
			return 1 + wardrobe[i].values;
		}
	fprintf(stderr, "wear: what is %s?\n", args[0]);
	exit(2);
}

int main(int argc, char **argv)
{
	int i = 1;
	while (i < argc && strcmp(argv[i], "--") != 0)
		i += put_on(argv + i, argc - i);
	execvp(argv[i + 1], argv + i + 1);
	fprintf(stderr, "wear: %s: %s\n", argv[i + 1], strerror(errno));
	return 127;
}
