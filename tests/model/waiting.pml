/* Programs that sleep on completion channels: arm, poll, sleep, deliver.
 *
 * Peers put records into their rings of one process, look at its request for a wake-up without a
 * fence, and send a byte through the link's socket unless they have answered that request. Their
 * stores wait in a buffer until they leave by themselves, or until the process makes a barrier. In
 * the process a program arms its queue, polls, and sleeps on the sockets and on its channel; the
 * helper sleeps on the sockets too, and may leave what arrives to the program once; another thread
 * of the program polls now and then. Whoever polls executes the records, and a record that finds the
 * queue armed raises the channel. Any of them may be stopped anywhere. Checked:
 *   - when nothing moves any more, every record was executed, and the program, unless it went off
 *     to compute (-DCOMPUTES), has taken every completion;
 *   - the numbers of watchers and of armed queues stay in step.
 * -DIN_CALL: the program sleeps inside ibv_get_cq_event; else by epoll on a descriptor that carries
 * the sockets.
 */
#ifndef PEERS
#define PEERS 2
#endif
#ifndef RECORDS
#define RECORDS 2
#endif

/* What peers and the process share. */
byte request;             /* the process's last request for a wake-up */
byte ring[PEERS];         /* records that are visible */
byte buffered[PEERS];     /* records that are not, yet */
byte answered[PEERS];
bool wake[PEERS];         /* a byte lies in the link's socket */

/* The process's own. */
byte requests;
byte watchers;
bool taken = true;        /* the answer to the last request may be gone */
bool armed, raised;
byte executed, completions, got;
bool polling, serving;    /* locks that are only ever tried */
bool polled;              /* by the program, since the helper looked */
bool called;              /* the helper is, by its own descriptor */

#ifdef IN_CALL
#define IN_CALLS 1
#else
#define IN_CALLS 0
#endif
#define ANY(a) (a[0] || a[PEERS - 1])

active [PEERS] proctype peer() {
  byte me = _pid;
  byte seen, sent;
  do
  :: sent < RECORDS ->
     buffered[me]++; sent++;
     seen = request;
     if
     :: seen != answered[me] -> wake[me] = true; answered[me] = seen
     :: else
     fi
  :: else -> break
  od
}

active [PEERS] proctype buffer() {
  byte whose = _pid - PEERS;
end:
  do
  :: atomic { buffered[whose] > 0 -> buffered[whose]--; ring[whose]++ }
  od
}

inline barrier() {
  d_step {
    ring[0] = ring[0] + buffered[0]; buffered[0] = 0;
    ring[PEERS - 1] = ring[PEERS - 1] + buffered[PEERS - 1]; buffered[PEERS - 1] = 0
  }
}

inline request_wake() {
  if
  :: atomic { taken -> taken = false }
     atomic { requests++; number = requests };
     request = number;
     barrier();
  :: else
  fi
}

/* Takes what lies in the sockets. */
inline take_wakes() {
  if
  :: atomic { !serving -> serving = true }
     d_step { was = ANY(wake); wake[0] = false; wake[PEERS - 1] = false };
     if
     :: was ->
        taken = true;
        if
        :: watchers > 0 -> request_wake()
        :: else
        fi
     :: else
     fi;
     serving = false
  :: else
  fi
}

/* One record: its completion, and the event if the queue is armed. */
inline deliver(whose) {
  d_step {
    ring[whose]--; executed++; completions++;
    if
    :: armed -> armed = false; raised = true; watchers--
    :: else
    fi
  }
}

inline poll() {
  if
  :: atomic { !polling -> polling = true }
     do
     :: ring[0] > 0 -> deliver(0)
     :: ring[PEERS - 1] > 0 -> deliver(PEERS - 1)
     :: ring[0] == 0 && ring[PEERS - 1] == 0 -> break
     od;
     polling = false
  :: else
  fi
}

/* Who has taken wake-ups, or is about to sleep, looks for what has come without one. Somebody else
 * may have the rings, have looked at them before, and be stopped: then the helper looks. */
inline look() {
  if
  :: atomic { !polling -> polling = true }
     do
     :: ring[0] > 0 -> deliver(0)
     :: ring[PEERS - 1] > 0 -> deliver(PEERS - 1)
     :: ring[0] == 0 && ring[PEERS - 1] == 0 -> break
     od;
     polling = false
  :: else -> called = true
  fi
}

/* The program's. */
inline take_completions() { d_step { got = got + completions; completions = 0 } }
inline arm() {
  d_step {
    if
    :: !armed -> armed = true; watchers++
    :: else
    fi;
    /* What waits and came after the last event gives one at once. */
    if
    :: completions > 0 -> armed = false; watchers--; raised = true
    :: else
    fi
  }
}

active proctype program() {
  byte number;
  bool was, found;
  do
  :: arm(); polled = true;
#ifndef IN_CALL
     request_wake();
     look();
#endif
#ifdef COMPUTES
     break;
#endif
     poll(); take_completions(); polled = true;
#ifdef IN_CALL
     do
     :: raised -> break
     :: else ->
        watchers++;
        request_wake();
        found = ANY(ring) || polling;
        if
        :: !found ->
end_in_call:
           (raised || ANY(wake));
           watchers--;
           take_wakes();
           look()
        :: else -> watchers--; poll()
        fi;
        polled = true
     od;
#else
end_by_epoll:
     (raised || ANY(wake));
     if
     :: !raised ->
        take_wakes();
        request_wake();
        look(); polled = true
     :: else
     fi;
#endif
     if
     :: raised -> raised = false
     :: else
     fi
  od
}

/* Another thread, which polls and never sleeps. */
active proctype other() {
  byte times;
  do
  :: times < 1 -> poll(); polled = true; times++
  :: break
  od
}

active proctype helper() {
  byte number;
  bool was, found, by_arrival, had_moment;
  do
  :: if
     :: polled -> polled = false; had_moment = false   /* doze: the program does its own work */
     :: !polled && armed && by_arrival && !had_moment -> had_moment = true
     :: !polled ->
        had_moment = false;
        poll();
        take_wakes();
        watchers++;
        request_wake();
        found = ANY(ring) || polling;
        if
        :: !found ->
end_asleep:
           (ANY(wake) || called);
           by_arrival = !called;
           called = false
        :: else -> by_arrival = false
        fi;
        watchers--
     fi
  od
}

/* When nobody can move any more. */
active proctype judge() {
end:
  timeout ->
  assert(executed == PEERS * RECORDS);
#ifndef COMPUTES
  assert(got == executed);
#endif
  /* The armed queue, the helper, and who sleeps in our call. */
  assert(watchers == armed + 1 + IN_CALLS)
}
