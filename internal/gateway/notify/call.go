// SPDX-License-Identifier: Apache-2.0

package notify

import "golang.org/x/sys/unix"

// A process below a gateway can call the watcher: by prctl(2) with an option that no kernel has, and that the
// filter holds as well.
const (
	callOption = 0x6d637073
	answered   = unix.EALREADY // of the watcher; the kernel's is EINVAL
)

// CallWatcher calls the watcher of the gateway that this process is below. It returns false if no watcher has
// answered.
func CallWatcher() bool {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, callOption, 0, 0, 0, 0, 0)
	return errno == answered
}

// CallsWatcher reports whether the request is a call by CallWatcher.
func (r *Request) CallsWatcher() bool { return r.isNative() && r.Call == unix.SYS_PRCTL }

// AnswerCall ends a call by CallWatcher. r is not to be used any more.
func (l *Listener) AnswerCall(r *Request) { l.answer(r, response{errno: -int32(answered)}) }
