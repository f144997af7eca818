/* Messages round a ring of MPI processes, sums over all, and one-sided writes, each checked. Built by
   the cases with the mpicc of the MPI that they try. Prints "ring: all right", or where it went
   wrong. With "die", rank 1 kills itself in the middle. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void want(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "ring: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_at(int source, size_t at) {
  return (unsigned char)(at * 31 + (size_t)source * 7 + (at >> 8));
}

/* Everybody sends to the right and receives from the left. */
static void ring(size_t size) {
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  unsigned char* out = malloc(size);
  unsigned char* in = calloc(size, 1);
  for (size_t i = 0; i < size; ++i) out[i] = byte_at(rank, i);
  MPI_Sendrecv(out, (int)size, MPI_BYTE, right, 1, in, (int)size, MPI_BYTE, left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < size; ++i) want(in[i] == byte_at(left, i), "a message has a wrong byte");
  free(in);
  free(out);
}

/* More messages than any queue holds, received in order. */
static void burst(int count) {
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  int* values = malloc((size_t)count * sizeof *values);
  MPI_Request* sent = malloc((size_t)count * sizeof *sent);
  for (int i = 0; i < count; ++i) {
    values[i] = rank * count + i;
    MPI_Isend(&values[i], 1, MPI_INT, right, 2, MPI_COMM_WORLD, &sent[i]);
  }
  for (int i = 0; i < count; ++i) {
    int value = -1;
    MPI_Recv(&value, 1, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    want(value == left * count + i, "messages overtook each other");
  }
  MPI_Waitall(count, sent, MPI_STATUSES_IGNORE);
  free(sent);
  free(values);
}

static void sums(void) {
  long value = rank + 1, sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  want(sum == (long)ranks * (ranks + 1) / 2, "a sum over all is wrong");
}

/* Everybody writes its column into everybody's window, and adds one to a counter of rank 0. */
static void one_sided(void) {
  int* memory = NULL;
  MPI_Win window;
  const MPI_Aint size = (MPI_Aint)(sizeof(int) * ((size_t)ranks + 1));
  MPI_Win_allocate(size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  for (int i = 0; i <= ranks; ++i) memory[i] = 0;
  const int mine = 1000 + rank, one = 1;
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks; ++i) MPI_Put(&mine, 1, MPI_INT, i, rank, 1, MPI_INT, window);
  MPI_Accumulate(&one, 1, MPI_INT, 0, ranks, 1, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks; ++i) want(memory[i] == 1000 + i, "a one-sided write is missing");
  want(rank != 0 || memory[ranks] == ranks, "the counter is wrong");
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  want(ranks > 1, "is alone");
  for (size_t size = 1; size <= ((size_t)4 << 20); size *= 4) ring(size);
  if (argc > 1 && strcmp(argv[1], "die") == 0 && rank == 1) raise(SIGKILL);
  burst(2000);
  sums();
  one_sided();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("ring: all right, %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
