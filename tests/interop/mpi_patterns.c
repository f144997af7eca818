/* How MPI processes talk, everybody with everybody at once: pairs, collectives, wildcards, spread
   data, groups, one-sided. Every byte is checked. Built by the cases with the mpicc of the MPI that
   they try, for three ranks and more. Prints "patterns: all right", or where it went wrong. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void want(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "patterns: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte_of(int source, int target, size_t at) {
  return (unsigned char)(at * 29 + (size_t)source * 101 + (size_t)target * 11 + (at >> 8));
}
static void fill(unsigned char* to, size_t size, int source, int target) {
  for (size_t i = 0; i < size; ++i) to[i] = byte_of(source, target, i);
}
static int is_right(const unsigned char* at, size_t size, int source, int target) {
  for (size_t i = 0; i < size; ++i) {
    if (at[i] != byte_of(source, target, i)) return 0;
  }
  return 1;
}

/* Everybody to everybody, all of it under way at the same time. The first call makes every
   connection at once. */
static void all_pairs(size_t size) {
  unsigned char* out = malloc(size * (size_t)ranks);
  unsigned char* in = calloc(size, (size_t)ranks);
  MPI_Request* requests = malloc(2 * (size_t)ranks * sizeof *requests);
  for (int i = 0; i < ranks; ++i) {
    MPI_Irecv(in + size * (size_t)i, (int)size, MPI_BYTE, i, 3, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < ranks; ++i) {
    const int to = (rank + i) % ranks;
    fill(out + size * (size_t)to, size, rank, to);
    MPI_Isend(out + size * (size_t)to, (int)size, MPI_BYTE, to, 3, MPI_COMM_WORLD,
              &requests[ranks + i]);
  }
  MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < ranks; ++i) {
    want(is_right(in + size * (size_t)i, size, i, rank), "a message between two has a wrong byte");
  }
  free(requests);
  free(in);
  free(out);
}

/* Rank 0 takes from anybody what came before anybody waited for it, of lengths that it asks for. */
static void from_anybody(int count) {
  enum { kMost = 20000 };
  unsigned char* bytes = malloc(kMost);
  if (rank != 0) {
    for (int i = 0; i < count; ++i) {
      const int size = (i * 977 + rank * 131) % kMost;
      fill(bytes, (size_t)size, rank, i);
      MPI_Send(bytes, size, MPI_BYTE, 0, i, MPI_COMM_WORLD);
    }
  } else {
    for (int i = 0; i < count * (ranks - 1); ++i) {
      MPI_Status status;
      int size = -1;
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &size);
      want(size == (status.MPI_TAG * 977 + status.MPI_SOURCE * 131) % kMost, "a length is wrong");
      MPI_Recv(bytes, size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      want(is_right(bytes, (size_t)size, status.MPI_SOURCE, status.MPI_TAG),
           "a message to rank 0 has a wrong byte");
    }
  }
  free(bytes);
}

static void collectives(int count) {
  int* out = malloc((size_t)(count * ranks) * sizeof *out);
  int* in = calloc((size_t)(count * ranks), sizeof *in);
  for (int i = 0; i < count * ranks; ++i) out[i] = rank * 100003 + i;
  MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < count * ranks; ++i) {
    want(in[i] == i / count * 100003 + rank * count + i % count, "an exchange of all is wrong");
  }
  MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < count * ranks; ++i) {
    want(in[i] == i / count * 100003 + i % count, "a collection of all is wrong");
  }
  MPI_Allreduce(out, in, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) want(in[i] == (ranks - 1) * 100003 + i, "a maximum is wrong");
  for (int root = 0; root < ranks; ++root) {
    memcpy(in, out, (size_t)count * sizeof *in);
    MPI_Bcast(in, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) want(in[i] == root * 100003 + i, "a broadcast is wrong");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(in);
  free(out);
}

/* Every second row of a matrix goes out, and lands in every third of another. Rows of bytes: MPICH
   4.0 cannot take in a part of an element, and UCX cuts messages where it likes. */
static void spread(int rows, int row_bytes) {
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  const size_t size = (size_t)(rows * row_bytes);
  unsigned char* out = malloc(2 * size);
  unsigned char* in = calloc(3, size);
  MPI_Datatype every_second, every_third;
  MPI_Type_vector(rows, row_bytes, 2 * row_bytes, MPI_BYTE, &every_second);
  MPI_Type_vector(rows, row_bytes, 3 * row_bytes, MPI_BYTE, &every_third);
  MPI_Type_commit(&every_second);
  MPI_Type_commit(&every_third);
  for (int i = 0; i < rows; ++i) {
    fill(out + (size_t)(2 * i * row_bytes), (size_t)row_bytes, rank, i);
    memset(out + (size_t)((2 * i + 1) * row_bytes), 0xEE, (size_t)row_bytes);
  }
  MPI_Sendrecv(out, 1, every_second, right, 4, in, 1, every_third, left, 4, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int i = 0; i < rows; ++i) {
    want(is_right(in + (size_t)(3 * i * row_bytes), (size_t)row_bytes, left, i),
         "spread data has a wrong byte");
    want(in[(3 * i + 1) * row_bytes] == 0, "spread data landed between its rows");
  }
  MPI_Type_free(&every_third);
  MPI_Type_free(&every_second);
  free(in);
  free(out);
}

/* Even and odd ranks for themselves, made and freed again and again. */
static void groups(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm mine;
    int members = 0, sum = -1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &mine);
    MPI_Comm_size(mine, &members);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, mine);
    int expected = 0;
    for (int j = rank % 2; j < ranks; j += 2) expected += j;
    want(members == (ranks + 1 - rank % 2) / 2 && sum == expected, "a group is wrong");
    MPI_Comm_free(&mine);
  }
}

static void one_sided(int count) {
  int* memory = NULL;
  int* got = malloc((size_t)count * sizeof *got);
  int* mine = malloc((size_t)count * sizeof *mine);
  MPI_Win window;
  const MPI_Aint size = (MPI_Aint)sizeof(int) * (ranks * count + 1);
  MPI_Win_allocate(size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (size_t)size);
  for (int i = 0; i < count; ++i) mine[i] = rank * 7919 + i;
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks; ++i) {
    MPI_Put(mine, count, MPI_INT, i, rank * count, count, MPI_INT, window);
  }
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks * count; ++i) {
    want(memory[i] == i / count * 7919 + i % count, "a one-sided write is missing");
  }
  const int one = 1, other = (rank + 1) % ranks;
  int before = -1;
  MPI_Win_lock(MPI_LOCK_SHARED, other, 0, window);
  MPI_Get(got, count, MPI_INT, other, rank * count, count, MPI_INT, window);
  MPI_Win_unlock(other, window);
  want(memcmp(got, mine, (size_t)count * sizeof *got) == 0, "a one-sided read is wrong");
  for (int i = 0; i < 10; ++i) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, ranks * count, MPI_SUM, window);
    MPI_Win_unlock(0, window);
    want(before >= i && before < 10 * ranks, "a counter stands where it cannot");
  }
  MPI_Win_fence(0, window);
  want(rank != 0 || memory[ranks * count] == 10 * ranks, "additions were lost");
  MPI_Win_free(&window);
  free(mine);
  free(got);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t sizes[] = {1, 8, 200, 4095, 4096, 8193, 70001, 1000003};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) all_pairs(sizes[i]);
  from_anybody(40);
  collectives(1);
  collectives(3000);
  spread(64, 1000);
  spread(300, 3);
  groups(5);
  one_sided(1000);
  for (int i = 0; i < 20; ++i) all_pairs(64);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("patterns: all right, %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
