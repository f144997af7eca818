/* Programs that sleep on completion channels: arm, poll, sleep, deliver.
 *
 * Peers put records into their rings of one process, look at its request for a wake-up without a
 * fence, and send a byte through the link's socket unless they have answered that request. Their
 * stores wait in a buffer until they leave by themselves, or until the process makes a barrier. In
 * the process a program arms its queue, polls, and sleeps on the sockets and on its channel; at any
 * time it may go off to compute, and never call again. The helper sleeps on the sockets too; it may
 * leave what arrives to the program for a moment. Whoever polls executes the records; a record that
 * finds the queue armed raises the channel. Any of them may be stopped anywhere. Checked:
 *   - when all sleep, every record was executed, the program has taken every completion unless it
 *     computes, and no queue is armed that has a completion which was not announced;
 *   - watchers are counted right.
 * How the program waits: by epoll on a descriptor that carries the sockets; -DIN_CALL: inside
 * ibv_get_cq_event; -DBY_HELPER: on its channel only. -DOTHER: another of its threads polls.
 * -DFENCES: requests ask the peers to fence; then only the first one needs the barrier.
 *
 * What keeps the states few: a local variable that is not needed any more is 0. Polls are not
 * counted: what the helper does for a program that polls, it may do here at any time. Numbers of
 * requests need no bound, since each but the first follows a wake-up that was taken.
 */
#ifndef PEERS
#define PEERS 1
#endif
#ifndef RECORDS
#define RECORDS 2  /* of each peer */
#endif

/* What peers and the process share. */
byte request;             /* the number of the process's last request for a wake-up */
bool fences;              /* it asks peers to fence, in the same word */
byte ring[PEERS];         /* records that are visible */
byte buffered[PEERS];     /* records that are not, yet */
bool wake[PEERS];         /* a byte lies in the link's socket */

/* The process's own. */
byte requests;
byte watchers;
bool taken = true;        /* the answer to the last request may be gone */
bool polling, serving;    /* locks that are only ever tried */
bool asleep;              /* the helper says so */
bool called;              /* the helper's own descriptor is readable */
/* The completion queue, and its channel. */
bool armed, raised;
bool raising;             /* who has the queue's lock is about to raise the channel */
bool unannounced;         /* the newest completion came since the last event */
byte completions, got;
bool computes;            /* the program, and calls nobody any more */

#ifdef IN_CALL
#define IN_CALLS 1
#else
#define IN_CALLS 0
#endif
#if PEERS > 1
#define ANY(a) (a[0] || a[1])
#else
#define ANY(a) (a[0] != 0)
#endif

#define FLUSH(p) d_step { ring[p] = ring[p] + buffered[p]; buffered[p] = 0 }

active [PEERS] proctype peer() {
  byte sent, seen, answered;
  do
  :: sent < RECORDS ->
     atomic { buffered[_pid]++; sent++ };
#ifdef FENCES
     if
     :: fences -> FLUSH(_pid)
     :: else
     fi;
#endif
     seen = request;
     if
     :: seen != answered ->
        wake[_pid] = true;
        answered = seen
     :: else
     fi;
     seen = 0
  :: else -> d_step { sent = 0; answered = 0 }; break
  od
}

/* Stores leave by themselves, too. */
#define LEAVE(p) buffered[p] > 0 -> buffered[p]--; ring[p]++
active proctype buffers() {
end:
  do
  :: d_step { LEAVE(0) }
#if PEERS > 1
  :: d_step { LEAVE(1) }
#endif
  od
}

/* On each processor in turn. */
inline barrier() {
  FLUSH(0);
#if PEERS > 1
  FLUSH(1);
#endif
}

inline request_wake() {
  d_step { flag = taken; taken = false };
  if
  :: flag ->
     d_step { flag = false; requests++; number = requests };
#ifdef FENCES
     d_step { request = number; number = 0; flag = fences; fences = true };
     if
     :: flag -> flag = false
     :: else -> barrier()
     fi
#else
     d_step { request = number; number = 0 };
     barrier()
#endif
  :: else
  fi
}

/* Takes what lies in the sockets. */
inline take_wakes() {
  if
  :: atomic { !serving -> serving = true };
     d_step { flag = wake[0]; wake[0] = false };
#if PEERS > 1
     d_step { flag = flag || wake[1]; wake[1] = false };
#endif
     if
     :: flag ->
        d_step { flag = false; taken = true };
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

/* Somebody is told to, by a local flag: raises the channel, and gives the queue's lock back. */
inline raise_if_flagged() {
  if
  :: flag ->
     watchers--;
     d_step { raised = true; raising = false; flag = false }
  :: else
  fi
}

/* One record: its completion, and the event if the queue is armed. */
inline execute(p) {
  d_step {
    !raising ->
    ring[p]--; completions++;
    if
    :: armed -> armed = false; raising = true; flag = true
    :: else -> unannounced = true
    fi
  };
  raise_if_flagged()
}

inline execute_all() {
  do
  :: ring[0] > 0 -> execute(0)
#if PEERS > 1
  :: ring[1] > 0 -> execute(1)
#endif
  :: !ANY(ring) -> break
  od;
  polling = false
}

inline poll() {
  if
  :: atomic { !polling -> polling = true }; execute_all()
  :: else
  fi
}

/* Who has asked for wake-ups, or has taken some, looks for what has come without one. Somebody else
 * may have the rings, have looked at them before, and be stopped: then the helper looks. */
inline look() {
  if
  :: atomic { !polling -> polling = true }; execute_all()
  :: else ->
     if
     :: asleep -> called = true
     :: else
     fi
  fi
}

/* Before a sleep. Who finds the rings taken does not sleep. */
inline look_only() {
  if
  :: atomic { !polling -> polling = true };
     flag = ANY(ring);
     polling = false
  :: else -> flag = true
  fi
}

/* The program's. */
inline take_completions() {
  d_step { !raising -> got = got + completions; completions = 0; unannounced = false }
}
inline arm() {
  watchers++;
  d_step {
    !raising ->
    if
    :: unannounced -> unannounced = false; raising = true; flag = true
    :: else -> armed = true
    fi
  };
  raise_if_flagged()
}

/* The program may do something else from here on, for ever. */
inline may_compute() {
  if
  :: computes = true; goto away
  :: skip
  fi
}

active proctype program() {
  byte number;
  bool flag;
#ifdef IN_CALL
  bool left;                /* wake-ups that it has not taken */
#endif
  do
  :: arm();
#if !defined(IN_CALL) && !defined(BY_HELPER)
     request_wake();
     look();
#endif
     may_compute();
     poll();
     take_completions();
     do
     :: raised -> break
     :: else ->
#if defined(IN_CALL)
        watchers++;
        if
        :: left -> left = false; take_wakes()
        :: else
        fi;
        request_wake();
        do
        :: look_only();
           if
           :: flag ->
              flag = false;
              poll();
              if
              :: raised -> look(); break /* somebody may sleep on the strength of our request */
              :: else
              fi
           :: flag ->                    /* so many times that it slept for a short time only */
              flag = false;
              take_wakes();
              look();
              break
           :: else ->
end_in_call:
              (raised || ANY(wake));
              if
              :: ANY(ring) -> left = true; poll() /* takes the wake-ups before the next sleep */
              :: take_wakes();
                 look()
              fi;
              break
           fi
        od;
        watchers--
#elif defined(BY_HELPER)
end_by_helper:
        (raised)
#else
end_by_epoll:
        (raised || ANY(wake));
        if
        :: !raised ->
           take_wakes();
           request_wake();
           look();
           may_compute()
        :: else
        fi
#endif
     od;
     raised = false;
     may_compute()
  od;
away:
  skip
}

#ifdef OTHER
active proctype other() {
  bool flag;
  poll()
}
#endif

active proctype helper() {
  byte number;
  bool flag, by_arrival;
  do
  :: take_wakes()                        /* dozes */
#ifdef FENCES
  :: d_step { fences -> fences = false } /* the program spins */
#endif
  :: armed && by_arrival -> by_arrival = false;
     skip                                /* the program's moment is over */
  :: by_arrival = false;
     poll();
     take_wakes();
     asleep = true;
     watchers++;
     request_wake();
     look_only();
     if
     :: flag -> flag = false
     :: else ->
end_asleep:
        atomic { (ANY(wake) || called) -> by_arrival = ANY(wake); flag = called }
     fi;
     asleep = false;
     watchers--;
     if
     :: flag -> d_step { flag = false; called = false }
     :: else
     fi
  od
}

/* When nobody can move any more. */
active proctype judge() {
end:
  timeout ->
  assert(got + completions == PEERS * RECORDS);
  assert(computes || completions == 0);
  assert(!armed || !unannounced);
  /* The armed queue, the helper, and who sleeps in our call. */
  assert(watchers == armed + 1 + (IN_CALLS && !computes))
}
