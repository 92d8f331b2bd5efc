/* fork, exec, exit and friends; argv[1] picks the way. Output and status must not depend on the preload. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"
int cuInit(unsigned);
int cuStreamSynchronize(void*);
extern char** environ;

/* Two calls in this order; the order of a printf's arguments would be the compiler's. */
static void init_and_sync(const char* who) {
  int init = cuInit(0);
  printf("%sinit %d sync %d\n", who, init, cuStreamSynchronize(0));
}

static int reap(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static pthread_barrier_t start;
static void* racer(void* code) {
  pthread_barrier_wait(&start);
  *(int*)code = cuStreamSynchronize(0);
  return NULL;
}

static void* forker(void* unused) {
  (void)unused;
  usleep(20000); /* while another thread is inside the opening of the runtime */
  pid_t pid = fork();
  if (pid == 0) _exit(cuStreamSynchronize(0) == 1005 ? 21 : 22);
  return (void*)(intptr_t)reap(pid);
}

int main(int argc, char** argv) {
  const char* how = argv[1];
  if (argc > 2) return printf("executed %d\n", cuInit(0)), 17; /* the target of exec and spawn */
  if (!strcmp(how, "race")) {
    enum { kThreads = 16 };
    pthread_t threads[kThreads];
    int codes[kThreads];
    pthread_barrier_init(&start, NULL, kThreads);
    for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, racer, &codes[i]);
    int right = 0;
    for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL), right += codes[i] == 1005;
    printf("right %d\n", right);
    long (*opened)(void) = (long (*)(void))stub_rt("stub_rt_opened");
    if (opened) fprintf(stderr, "opened %ld\n", opened());
    report("cuStreamSynchronize");
    return 0;
  }
  if (!strcmp(how, "fork_while_opening")) {
    pthread_t thread;
    void* status = NULL;
    pthread_create(&thread, NULL, forker, NULL);
    printf("parent %d\n", cuStreamSynchronize(0));
    pthread_join(thread, &status);
    printf("child %d\n", (int)(intptr_t)status);
    return 0;
  }
  if (!strcmp(how, "fork_before")) { /* the child is the first to touch CUDA */
    pid_t pid = fork();
    if (pid == 0) {
      init_and_sync("child ");
      report("cuStreamSynchronize");
      exit(4);
    }
    printf("reaped %d\n", reap(pid));
    return 0;
  }
  if (!strcmp(how, "chdir") && chdir("/") != 0) return 1;
  init_and_sync("");
  fflush(stdout);
  if (!strcmp(how, "fork")) {
    pid_t pid = fork();
    if (pid == 0) {
      printf("child sync %d\n", cuStreamSynchronize(0));
      report("cuStreamSynchronize"); /* as many as the parent had: passing through */
      init_and_sync("child ");
      report("cuStreamSynchronize"); /* one more */
      exit(6);
    }
    printf("reaped %d\n", reap(pid));
    printf("parent sync %d\n", cuStreamSynchronize(0));
    report("cuStreamSynchronize");
    return 0;
  }
  if (!strcmp(how,
              "fork_lookup")) { /* a library loaded in the child looks everything up before it calls cuInit */
    pid_t pid = fork();
    if (pid == 0) {
      void* driver = dlopen("libcuda.so.1", RTLD_NOW);
      int (*proc)(const char*, void**, int, uint64_t, int*) =
          (int (*)(const char*, void**, int, uint64_t, int*))dlsym(driver, "cuGetProcAddress_v2");
      void* sync = NULL;
      proc("cuStreamSynchronize", &sync, 12000, 0, NULL);
      int before = ((int (*)(void*))sync)(0);
      int init = cuInit(0);
      printf("child sync %d init %d sync %d\n", before, init, ((int (*)(void*))sync)(0));
      report("cuStreamSynchronize");
      exit(0);
    }
    printf("reaped %d\n", reap(pid));
    return 0;
  }
  if (!strcmp(how, "vfork")) {
    pid_t pid = vfork();
    if (pid == 0) _exit(9);
    int status = reap(pid);
    printf("reaped %d sync %d\n", status, cuStreamSynchronize(0));
    return 0;
  }
  if (!strcmp(how, "spawn")) {
    char* args[] = {argv[0], "spawn", "target", NULL};
    pid_t pid = 0;
    posix_spawn(&pid, argv[0], NULL, NULL, args, environ);
    printf("reaped %d\n", reap(pid));
    return 0;
  }
  if (!strcmp(how, "exec")) return execl(argv[0], argv[0], "exec", "target", (char*)NULL);
  if (!strcmp(how, "exit")) exit(31);
  if (!strcmp(how, "_exit")) _exit(32);
  if (!strcmp(how, "quick_exit")) quick_exit(33);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "segv")) raise(SIGSEGV);
  if (!strcmp(how, "dlclose")) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*sync)(void*) = (int (*)(void*))dlsym(driver, "cuStreamSynchronize");
    dlclose(driver);
    printf("after dlclose %d\n", sync(0));
    return 0;
  }
  if (!strcmp(how, "chdir")) return 0;
  if (!strcmp(how, "late")) { /* calls from a static destructor's time */
    return 0;
  }
  return 1;
}

__attribute__((destructor)) static void late(void) {
  if (getenv("LIFE_LATE")) printf("late sync %d\n", cuStreamSynchronize(0));
}
