// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that replace each other. Each slot of a ring is a robust mutex in
 * shared memory, held by the process that lives in the slot: who waits for it is
 * woken by the kernel when the holder dies, however it died, and forks the next
 * one. So the number alive is bounded by the slots, and nobody polls.
 */
#include "zoo.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_SLOTS = 200 };

static pthread_mutex_t *slots;
static unsigned first_slot, ring_size, my_slot;

static void make_slots(void)
{
	pthread_mutexattr_t attr;
	slots = mmap(NULL, MAX_SLOTS * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		die("mmap");
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	for (int i = 0; i < MAX_SLOTS; i++)
		pthread_mutex_init(&slots[i], &attr);
}

static bool own(unsigned slot, int (*take)(pthread_mutex_t *))
{
	int err = take(&slots[slot]);
	if (err == EOWNERDEAD)
		err = pthread_mutex_consistent(&slots[slot]);
	return err == 0;
}

static void live_in_slot(void);

/* Returns when the new process holds its slot, has seen that another does, or
 * is dead: else we would find the slot free and fork without bound. */
static void replace(unsigned slot)
{
	int claimed[2];
	char byte;
	if (pipe2(claimed, 0) != 0)
		die("pipe");
	pid_t pid = fork();
	if (pid == 0) {
		born("ring");
		my_slot = slot;
		if (!own(slot, pthread_mutex_trylock))
			_exit(0);
		close(claimed[0]);
		close(claimed[1]);
		live_in_slot();
	}
	close(claimed[1]);
	while (read(claimed[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(claimed[0]);
}

static void live_in_slot(void)
{
	unsigned next = first_slot + (my_slot - first_slot + 1) % ring_size;
	ignore_signals();
	signal(SIGCHLD, SIG_IGN);
	up();
	for (;;) {
		if (!own(next, pthread_mutex_lock))
			die("lock a slot");
		pthread_mutex_unlock(&slots[next]);
		replace(next);
	}
}

static void start_ring(unsigned first, unsigned size)
{
	first_slot = first;
	ring_size = size;
	replace(first);
	await_up(size);
}

static void bomb(void)
{
	make_slots();
	ignore_signals();
	signal(SIGCHLD, SIG_IGN);
	start_ring(0, MAX_SLOTS);
}

static void pairs(void)
{
	make_slots();
	signal(SIGCHLD, SIG_IGN);
	for (unsigned first = 0; first < 6; first += 2)
		start_ring(first, 2);
}

const struct mode ring_modes[] = {
	{"fork-bomb", NULL, bomb, NULL, STAYS, "200 processes that replace who dies"},
	{"pairs", NULL, pairs, NULL, ENDS, "three pairs that start each other again"},
	{0},
};
