//! Waterfalls of samples with more than two extents: the plane that is asked for, from live memory and from the archive.

use super::*;

const PLANES: usize = 3;

pub(super) fn request(plane: &str, end: Option<i64>) -> String {
    let plain = super::request(100, 10 * SECOND, end);
    plain.replace(r#""bins""#, &format!(r#""plane":{plane},"bins""#))
}

/// A stack of three spectra at 10 Hz.
fn scene() -> Scene {
    Scene::with_shape(&[PLANES as u32, 1, BINS as u32])
}

/// A sample whose elements of plane `p` are 10 · `p`.
fn stack(scene: &Scene, index: u64) -> Block {
    let values = (0..PLANES).flat_map(|plane| [10.0 * plane as f32; BINS]);
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    Block { data: SampleBuffer::from_bytes(&bytes), ..scene::block(&scene.info, index, &[0.0]) }
}

fn pass(scene: &mut Scene) {
    scene.wait();
    scene.history.block(&stack(scene, scene.next_index), scene.now);
    scene.next_index += 1;
}

const fn at(number: u32, is_nearest: bool) -> Plane {
    Plane { number, is_nearest }
}

#[test]
fn the_plane_asked_for_is_shown_and_the_nearest_one_says_so() {
    let mut scene = scene();
    for (plane, shown) in
        [("[]", at(0, false)), ("[2]", at(2, false)), ("[1]", at(1, false)), ("[9]", at(2, true))]
    {
        scene.say(&request(plane, None)).unwrap();
        // The columns of a plane are kept from its first frame on.
        scene.wait();
        scene.frame();
        pass(&mut scene);
        let frame = scene.frame().unwrap();
        assert_eq!((frame.planes, frame.plane), (PLANES as u32, shown), "{plane}");
        let wanted = 10.0 * shown.number as f32;
        let values = scene.page.values().flat_map(|column| column.bins.iter());
        assert!(values.clone().count() > 0 && values.clone().all(|value| *value == wanted), "{plane}");
    }
}

#[test]
fn planes_that_are_not_there_take_no_memory() {
    let mut scene = scene();
    pass(&mut scene);
    let kept = |scene: &mut Scene, plane: &str| {
        scene.say(&request(plane, None)).unwrap();
        scene.wait();
        scene.frame();
        let slot = scene.history.stream("lab/x").unwrap();
        slot.memory().waterfalls.len()
    };
    // The first plane of a stream of spectra is kept from the beginning.
    assert_eq!(kept(&mut scene, "[0]"), 1);
    assert_eq!(kept(&mut scene, "[2]"), 2);
    for far in 3..100 {
        assert_eq!(kept(&mut scene, &format!("[{far}]")), 2);
    }
}

#[test]
fn an_answer_of_the_archive_for_another_plane_is_not_shown() {
    let mut scene = scene();
    let archived = Archived { blocks: vec![stack(&scene, 7)], ..Archived::default() };
    // The stream is gone: only the archive has it.
    scene.history = History::default();
    let end = Some(scene::time_of(&scene.info, 10).as_nanos());
    // So long ago that an answer is final.
    scene.now.wall = scene.now.wall.offset(60 * SECOND);
    let questions = |scene: &mut Scene, plane: &str| {
        scene.say(&request(plane, end)).unwrap();
        scene.frame();
        scene.now.steady += Duration::from_secs(1);
        scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now })
    };
    let of_first = questions(&mut scene, "[0]");
    assert_eq!(of_first.len(), 1);
    // The user goes on to another plane before the answer comes.
    assert!(questions(&mut scene, "[7]").is_empty(), "one question at a time");
    scene.viewer.took_samples(of_first.into_iter().map(|it| it.answer(&archived)).collect());
    scene.now.steady += Duration::from_secs(1);
    assert_eq!(scene.ask(&archived), 1, "asked for the plane that is shown");
    let frame = scene.frame().unwrap();
    assert_eq!((frame.plane, frame.planes), (at(2, true), PLANES as u32));
    assert_eq!(frame.columns[0].bins[..], [20.0; BINS]);
}
