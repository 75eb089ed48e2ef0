//! How a process ends: `fatal`, panics, and an executor that cannot start. Each case is this very test binary,
//! started again with a variable set.

use std::future::pending;
use std::process::{Command, Output};

use rillway_io::Class;
use rillway_io::kernel::{self, KernelOptions};

const CASE: &str = "RILLWAY_IO_PROCESS_CASE";

/// Runs `test` of this binary alone, as `case`.
fn run(test: &str, case: &str) -> Output {
    let binary = std::env::current_exe().expect("this test binary");
    Command::new(binary)
        .args([test, "--exact", "--nocapture"])
        .env(CASE, case)
        .output()
        .expect("it starts")
}

fn is_case(case: &str) -> bool {
    std::env::var(CASE).is_ok_and(|value| value == case)
}

#[test]
fn fatal_exits_with_code_3_and_says_why() {
    if is_case("fatal") {
        let node = kernel::start(KernelOptions::default(), |rt| async move {
            rt.spawn(Class::Connection, async {}).await.expect("no panic");
            rt.fatal("flush of rings/7.ring failed: EIO");
        });
        node.expect("io_uring works here").join();
    }
    let output = run("fatal_exits_with_code_3_and_says_why", "fatal");
    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ERROR flush of rings/7.ring failed: EIO"), "{stderr}");
}

#[test]
fn a_panic_outside_a_connection_exits_with_code_101() {
    if is_case("panic") {
        let node = kernel::start(KernelOptions::default(), |rt| async move {
            rt.spawn(Class::Background, async { panic!("of destage") }).detach();
            pending::<()>().await;
        });
        node.expect("io_uring works here").join();
    }
    let output = run("a_panic_outside_a_connection_exits_with_code_101", "panic");
    assert_eq!(output.status.code(), Some(101));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ERROR panic: of destage"), "{stderr}");
}

#[test]
fn starting_without_a_cpu_is_an_error() {
    let options = KernelOptions { cpus: vec![], ..KernelOptions::default() };
    let error = kernel::start(options, |_| async {}).expect_err("no CPU is listed");
    assert!(error.to_string().contains("no CPU is listed"), "{error}");
}
