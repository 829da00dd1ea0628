//! Cyclic apps over real sockets on this host's loopback. Nothing here measures time: cycles are counted.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use support::{Watchdog, wait_until};
use tallycast::cyclic::{App, AppError, AppLook, AppState, AppsWatch, DEFAULT_PERIOD, Freshness, Take};
use tallycast::{AccountState, Bus, Dtype, Event, Node, Publisher, Stage};

use crate::scene::{bus, bus_from_now, node, sum, watch_end, watch_ends};

/// The policy of threads that are not real-time, `SCHED_OTHER` of sched(7).
const OTHER: &str = "0";

/// An app that writes the number of its cycle until it is told to stop.
fn counter(node: &Node, stop: &AtomicBool) -> Result<tallycast::cyclic::AppReport, AppError> {
    let mut app = node.app("test/counter");
    let count = app.output::<f64>("test/count", [("count", "")]);
    app.run(|cycle| {
        let index = cycle.index() as f64;
        cycle.write(count, &[index])?;
        if stop.load(Ordering::Relaxed) {
            cycle.stop();
        }
        Ok(())
    })
}

/// Follows the apps on a bus until one is as it should be.
fn wait_for(watch: &mut AppsWatch, what: &str, mut is_it: impl FnMut(&AppLook) -> bool) -> AppLook {
    wait_until(what, || {
        watch.follow(Duration::from_secs(1));
        watch.apps().into_iter().find(&mut is_it)
    })
}

/// Waits until a reader has reported: it has joined before all later samples.
fn wait_for_a_reader(publisher: &Publisher) {
    wait_until("a reader's report", || (!publisher.readers().is_empty()).then_some(()));
}

/// Returns whether an app runs its cycles, of which a busy machine runs some late.
fn is_at_work(name: &str, app: &AppLook) -> bool {
    app.registration.app.as_str() == name && app.state != AppState::Gone
}

fn is(name: &'static str, state: AppState) -> impl FnMut(&AppLook) -> bool {
    move |app| app.registration.app.as_str() == name && app.state == state
}

#[test]
fn every_cycle_of_one_app_reaches_the_next_under_its_number() {
    let bus = bus_from_now();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let first = scope.spawn(|| counter(&node(&bus), &stop));
        let mut app = node(&bus).app("test/doubler");
        let count = app.input::<f64>("test/count", Take::All);
        let double = app.output::<f64>("test/double", [("double", "")]);
        let (mut seen, mut expected) = (0, None);
        let report = app.run(|cycle| {
            let received = cycle.input(count);
            for sample in received.samples() {
                // Bit for bit: the sample of a cycle holds the number of that cycle.
                assert_eq!(sample.elements[0].to_bits(), (sample.index as f64).to_bits());
                assert_eq!(sample.time.as_nanos() % 10_000_000, 0, "cycles begin at whole multiples");
                assert!(expected.is_none_or(|expected| sample.index >= expected), "in their order");
                expected = Some(sample.index + 1);
                seen += 1;
            }
            assert_eq!(received.is_new(), received.samples().len() > 0);
            if let Some([newest]) = received.newest() {
                assert!(received.age.is_some());
                cycle.write(double, &[newest * 2.0])?;
            } else {
                assert_eq!(received.freshness, Freshness::Missed, "nothing has ever come");
            }
            if seen >= 100 {
                cycle.stop();
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let (report, first) = (report.unwrap(), first.join().unwrap().unwrap());
        assert_eq!(report.counters.inputs[0].samples, seen);
        assert_eq!(report.counters.lateness.count(), report.counters.cycles);
        let account = sum(&report.accounts);
        assert!(account.explained() && account.elements.delivered >= seen, "{account:?}");
        let totals = &first.outputs[0].totals;
        assert_eq!(totals.samples.numbered, first.counters.cycles, "every cycle that ran wrote one sample");
        assert_eq!(totals.samples.source, first.counters.skipped);
    });
}

#[test]
fn a_function_that_panics_ends_its_app_with_every_account_closed() {
    let bus = bus_from_now();
    let mut reader = node(&bus).subscriber("**").open().unwrap();
    let (joined, may_panic) = mpsc::channel();
    thread::scope(|scope| {
        let app = scope.spawn(|| {
            let mut app = node(&bus).app("test/panics");
            let count = app.output::<u32>("test/count", [("count", "")]);
            app.run(move |cycle| {
                cycle.write(count, &[7])?;
                assert!(may_panic.try_recv().is_err(), "planted");
                Ok(())
            })
        });
        let mut began = BTreeSet::new();
        let ended = watch_ends(&mut reader, 2, |event| match event {
            Event::Began(info) => _ = began.insert(info.name.clone()),
            Event::Block(_) if began.len() == 2 => joined.send(()).unwrap_or(()),
            _ => {}
        });
        assert!(ended.iter().all(|it| it.state == AccountState::Closed && it.explained()), "{ended:?}");
        let Err(AppError::Panicked { message, cycle, report, .. }) = app.join().unwrap() else {
            panic!("the planted panic is told");
        };
        assert!(message.contains("planted"), "{message}");
        assert!(report.counters.cycles <= cycle + 1, "the last cycle is the one that panicked");
        assert_eq!(
            report.outputs[0].totals.samples.numbered,
            report.counters.cycles - 1,
            "the last cycle wrote nothing"
        );
    });
}

#[test]
fn what_an_overrun_covers_is_left_out_counted_and_a_hole_of_the_source() {
    let bus = bus_from_now();
    let mut reader = node(&bus).subscriber("test/count").open().unwrap();
    let joined = AtomicBool::new(false);
    thread::scope(|scope| {
        let app = scope.spawn(|| overrunning(&bus, &joined));
        let account = watch_end(&mut reader, |event| {
            if let Event::Block(block) = event {
                joined.store(true, Ordering::Relaxed);
                let indices = block.first_index..block.next_index();
                assert_eq!(block.elements::<u64>().unwrap(), indices.collect::<Vec<_>>());
            }
        });
        let report = app.join().unwrap().unwrap();
        assert!(report.counters.overruns >= 1 && report.counters.skipped >= 9, "{:?}", report.counters);
        let totals = report.outputs[0].totals.samples;
        assert_eq!((totals.numbered, totals.source), (report.counters.cycles, report.counters.skipped));
        assert!(account.explained() && account.state == AccountState::Closed, "{account:?}");
        assert!(account.elements.lost[Stage::Source] >= 9, "{account:?}");
    });
}

/// Runs an app that overruns by ten cycles once it has a reader, and ends a hundred cycles later.
fn overrunning(bus: &Bus, joined: &AtomicBool) -> Result<tallycast::cyclic::AppReport, AppError> {
    let mut app = node(bus).app("test/overruns");
    app.period(Duration::from_millis(5));
    let count = app.output::<u64>("test/count", [("count", "")]);
    let mut cycles_left = None;
    app.run(|cycle| {
        cycle.write(count, &[cycle.index()])?;
        match &mut cycles_left {
            None if joined.load(Ordering::Relaxed) => {
                thread::sleep(Duration::from_millis(51));
                cycles_left = Some(100);
            }
            None => {}
            Some(0) => cycle.stop(),
            Some(left) => *left -= 1,
        }
        Ok(())
    })
}

#[test]
fn an_app_whose_feeder_ends_starves_and_the_feeder_is_gone() {
    let bus = bus_from_now();
    let (stop_feeder, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let feeder = scope.spawn(|| counter(&node(&bus), &stop_feeder));
        let consumer = scope.spawn(|| consumer(&bus, &stop));
        let mut watch = AppsWatch::open(&node(&bus)).unwrap();
        wait_for(&mut watch, "the consumer at work", |app| {
            is_at_work("test/consumer", app)
                && app.newest.as_ref().is_some_and(|(_, row)| row.inputs[0].samples > 20)
        });
        stop_feeder.store(true, Ordering::Relaxed);
        wait_for(&mut watch, "the feeder gone", is("test/counter", AppState::Gone));
        let starved = wait_for(&mut watch, "the consumer starving", is("test/consumer", AppState::Starving));
        assert_eq!(starved.starving, [true]);
        feeder.join().unwrap().unwrap();
        stop.store(true, Ordering::Relaxed);
        let report = consumer.join().unwrap().unwrap();
        assert!(report.counters.inputs[0].missed >= 2, "{:?}", report.counters);
        let account = sum(&report.accounts);
        assert!(account.explained(), "{account:?}");
        assert!(watch.close().iter().all(|account| account.account.explained()));
    });
}

fn consumer(bus: &Bus, stop: &AtomicBool) -> Result<tallycast::cyclic::AppReport, AppError> {
    let mut app = node(bus).app("test/consumer");
    let _ = app.input::<f64>("test/count", Take::Newest);
    app.run(|cycle| {
        if stop.load(Ordering::Relaxed) {
            cycle.stop();
        }
        Ok(())
    })
}

#[test]
fn a_function_that_blocks_is_seen_from_outside_and_when_it_goes_on_too() {
    let bus = bus();
    let (block, blocked) = mpsc::channel::<mpsc::Receiver<()>>();
    thread::scope(|scope| {
        let app = scope.spawn(|| {
            node(&bus).app("test/blocks").run(move |cycle| {
                if let Ok(release) = blocked.try_recv() {
                    // A closed channel means to end.
                    if release.recv().is_err() {
                        cycle.stop();
                    }
                }
                Ok(())
            })
        });
        let mut watch = AppsWatch::open(&node(&bus)).unwrap();
        wait_for(&mut watch, "the app at work", |app| is_at_work("test/blocks", app));
        let (release, until) = mpsc::channel();
        block.send(until).unwrap();
        wait_for(&mut watch, "the app blocked", is("test/blocks", AppState::Gone));
        release.send(()).unwrap();
        let back = wait_for(&mut watch, "the app going on", |app| {
            app.state != AppState::Gone && app.newest.as_ref().is_some_and(|(_, row)| row.skipped > 0)
        });
        assert!(back.newest.is_some_and(|(_, row)| row.overruns > 0), "a block is an overrun");
        block.send(mpsc::channel().1).unwrap();
        let report = app.join().unwrap().unwrap();
        assert!(report.counters.skipped > 0 && report.counters.overruns > 0, "{:?}", report.counters);
    });
}

#[test]
fn what_is_lost_on_the_way_to_an_app_is_counted_in_the_cycle_that_learns_of_it() {
    const SAMPLES: u64 = 600;
    let bus = bus();
    thread::scope(|scope| {
        let source = scope.spawn(|| {
            let mut publisher =
                node(&bus).publisher("test/count").dtype(Dtype::U64).rate(500).loss(0.2).open().unwrap();
            wait_for_a_reader(&publisher);
            (0..SAMPLES).for_each(|index| publisher.send_when_due(&[index]).unwrap());
            publisher.close()
        });
        let mut app = node(&bus).app("test/reader");
        let count = app.input::<u64>("test/count", Take::All);
        let mut sums = (0, 0);
        let watchdog = Watchdog::new("every sample");
        let report = app.run(|cycle| {
            let received = cycle.input(count);
            assert!(received.samples().all(|sample| sample.elements == [sample.index]));
            sums = (sums.0 + received.samples().len() as u64, sums.1 + received.lost_elements);
            watchdog.check();
            if sums.0 + sums.1 >= SAMPLES {
                cycle.stop();
            }
            Ok(())
        });
        let (report, totals) = (report.unwrap(), source.join().unwrap());
        let input = &report.counters.inputs[0];
        assert_eq!((input.samples, input.lost_elements), sums);
        let account = sum(&report.accounts);
        let rows = &account.elements;
        assert_eq!((rows.delivered, rows.lost[Stage::Injected]), sums, "{account:?}");
        assert!(account.explained() && totals.samples.numbered == SAMPLES, "{account:?}");
        assert!(sums.1 > 0, "a fifth was to be lost");
    });
}

#[test]
fn a_stream_of_another_type_is_missed_and_never_misread() {
    let bus = bus();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let source = scope.spawn(|| {
            let mut publisher = node(&bus).publisher("test/count").dtype(Dtype::F4).rate(500).open().unwrap();
            wait_for_a_reader(&publisher);
            publisher.send(&[1.0_f32; 50]).unwrap();
            let totals = publisher.close();
            stop.store(true, Ordering::Relaxed);
            totals
        });
        let report = consumer(&bus, &stop).unwrap();
        assert_eq!(source.join().unwrap().samples.numbered, 50);
        let input = &report.counters.inputs[0];
        assert_eq!((input.samples, input.missed), (0, report.counters.cycles), "an f4 is no f8");
        assert!(sum(&report.accounts).explained(), "its account is kept all the same");
    });
}

#[test]
fn an_app_tells_how_it_is_scheduled() {
    let bus = bus();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let app = scope.spawn(|| {
            let mut app = node(&bus).app("test/urgent");
            app.fifo(1);
            app.run(|cycle| {
                if stop.load(Ordering::Relaxed) {
                    cycle.stop();
                }
                Ok(())
            })
        });
        let mut watch = AppsWatch::open(&node(&bus)).unwrap();
        let seen = wait_for(&mut watch, "the app", |app| app.state != AppState::Gone);
        stop.store(true, Ordering::Relaxed);
        app.join().unwrap().unwrap();
        match seen.registration.scheduling.as_str() {
            "fifo 1" => {}
            "other" => println!("SKIPPED: SCHED_FIFO is not allowed here"),
            other => panic!("neither what was asked for nor what is told without: {other}"),
        }
    });
}

/// A thread of this process: its name, its allowed processors, and its scheduling policy.
type Scheduled = (String, String, String);

/// Returns the scheduling of every thread of this process.
fn scheduled() -> Vec<Scheduled> {
    let look = |task: std::path::PathBuf| {
        let read = |file| fs::read_to_string(task.join(file)).ok();
        let status = read("status")?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim();
        // The 39th field, after the name in parentheses: `policy` of proc_pid_stat(5).
        let policy = read("stat")?.rsplit_once(')')?.1.split_whitespace().nth(38)?.to_owned();
        Some((read("comm")?.trim().to_owned(), cpus.to_owned(), policy))
    };
    // Threads of other tests come and go meanwhile.
    fs::read_dir("/proc/self/task").unwrap().filter_map(|task| look(task.ok()?.path())).collect()
}

#[test]
fn an_app_that_is_pinned_and_urgent_leaves_the_threads_of_its_node_alone() {
    let usual = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
    };
    let usual = usual();
    let Some(cpu) = usual.split_once([',', '-']).and_then(|(first, _)| first.parse().ok()) else {
        println!("SKIPPED: there is one processor, to which all are pinned");
        return;
    };
    let mut app = node(&bus()).app("test/pinned");
    app.pin_to(cpu).fifo(1);
    let _ = app.input::<f64>("test/in", Take::Newest);
    let _ = app.output::<f64>("test/out", [("out", "")]);
    let mut seen = Vec::new();
    let report = app.run(|cycle| {
        seen = scheduled();
        cycle.stop();
        Ok(())
    });
    assert_eq!(report.unwrap().counters.cycles, 1);
    let named = |name: &'static str| seen.iter().filter(move |it| it.0 == name);
    assert!(named("tallycast-app").any(|it| it.1 == cpu.to_string()), "the app is pinned: {seen:?}");
    if named("tallycast-app").all(|it| it.2 == OTHER) {
        println!("SKIPPED: SCHED_FIFO is not allowed here");
    }
    // The kernel keeps 15 letters of a name.
    for agent in ["tallycast-send", "tallycast-recei"] {
        assert!(named(agent).count() >= 1, "{seen:?}");
        assert!(named(agent).all(|it| it.1 == usual && it.2 == OTHER), "{seen:?}");
    }
}

#[test]
fn what_cannot_run_is_refused_before_anything_is_opened() {
    let directory = tempfile::Builder::new().prefix("tallycast-refused").tempdir_in("/dev/shm").unwrap();
    let bus: Bus = format!("shm://refused?dir={}", directory.path().display()).parse().unwrap();
    let files = fs::File::open(directory.path()).unwrap();
    let refused = |change: fn(&mut App)| {
        // Creating or removing any file there changes this time.
        files.set_modified(UNIX_EPOCH).unwrap();
        let mut app = node(&bus).app("test/refused");
        let _ = app.input::<f32>("test/in", Take::Newest);
        let _ = app.output::<f32>("test/out", [("out", "")]);
        change(&mut app);
        let error = app.run(|_| panic!("no cycle of this app may run")).unwrap_err();
        assert_eq!(files.metadata().unwrap().modified().unwrap(), UNIX_EPOCH, "opened before: {error}");
        error
    };
    let priority = refused(|app| _ = app.fifo(0));
    assert!(matches!(priority, AppError::Priority(0)), "{priority}");
    let priority = refused(|app| _ = app.fifo(100));
    assert!(matches!(priority, AppError::Priority(100)), "{priority}");
    let period = refused(|app| _ = app.period(Duration::ZERO));
    assert!(matches!(period, AppError::Registration(_)), "{period}");
    let phase = refused(|app| _ = app.phase(DEFAULT_PERIOD));
    assert!(phase.to_string().contains("is not within the period"), "{phase}");
    let unnamed = refused(|app| _ = app.input::<f32>("no name", Take::Newest));
    assert!(matches!(unnamed, AppError::Node(_)), "{unnamed}");
    let twice = refused(|app| _ = app.output::<f32>("test/more", [("a", ""), ("a", "")]));
    assert!(matches!(twice, AppError::Node(_)), "{twice}");
    let status = refused(|app| _ = app.output::<f32>("apps/test/refused", [("out", "")]));
    assert!(status.to_string().contains("own status stream"), "{status}");
}
