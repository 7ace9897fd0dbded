use super::*;
use futures::FutureExt;
use tokio::time::sleep;

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

fn found(ip: &str) -> FamilyAnswer {
    Ok((vec![ip.parse().unwrap()], Duration::from_secs(30)))
}

fn failure(is_negative: bool, no_such_name: bool) -> FamilyAnswer {
    let mut failure = no_answer();
    failure.error.is_negative = is_negative;
    failure.no_such_name = no_such_name;
    Err(failure)
}

/// The time of the answer, and its counts of addresses; `?` for a family that is unknown.
async fn resolved(v4: (u64, FamilyAnswer), v6: (u64, FamilyAnswer)) -> (u64, String) {
    let start = Instant::now();
    let answer = |(after, answer): (u64, FamilyAnswer)| sleep(MILLIS(after)).map(|()| answer);
    let both = both_families(answer(v4), answer(v6), start + Duration::from_secs(8)).await;
    let text = match combine(vec![both]) {
        Ok(AddressAnswer { v4, v6, .. }) => [v4.map(|v4| v4.len()), v6.map(|v6| v6.len())]
            .map(|count| count.map_or("?".to_owned(), |count| count.to_string()))
            .concat(),
        Err(error) => error.message,
    };
    let took = start.elapsed().as_millis();
    (u64::try_from(took).unwrap(), text)
}

#[tokio::test(start_paused = true)]
async fn one_family_does_not_hide_the_other() {
    let never = || (60_000, found("fd00::1"));
    let (v4, v6) = (|| found("10.0.0.1"), || found("fd00::1"));
    let (gone, empty, broken) = (
        || failure(true, true),
        || failure(true, false),
        || failure(false, false),
    );
    for (of_v4, of_v6, expected) in [
        ((10, v4()), (20, v6()), (20, "11")),
        ((10, v4()), never(), (210, "1?")),
        (never(), (10, v6()), (210, "?1")),
        ((10, v4()), (5, broken()), (10, "1?")),
        ((10, v4()), (5, empty()), (10, "10")),
        ((10, gone()), never(), (10, "00")),
        ((10, empty()), (20, empty()), (20, "00")),
        ((10, empty()), never(), (2010, "0?")),
        ((10, broken()), (20, empty()), (20, "?0")),
        ((10, broken()), (20, broken()), (20, "no answer in time")),
        (never(), never(), (8000, "no answer in time")),
    ] {
        let case = format!("{of_v4:?} {of_v6:?}");
        let expected = (expected.0, expected.1.to_owned());
        assert_eq!(resolved(of_v4, of_v6).await, expected, "{case}");
    }
}

#[test]
fn a_failure_for_a_name_of_the_search_list_is_no_proof_that_there_are_no_addresses() {
    let of = |v4: FamilyAnswer, v6: FamilyAnswer| NameAnswer { v4, v6 };
    let none = || of(failure(true, true), failure(true, true));
    let broken = || of(failure(false, false), failure(true, false));
    let answer = combine(vec![none(), none()]).unwrap();
    assert_eq!((answer.v4, answer.v6), (Some(vec![]), Some(vec![])));
    let answer = combine(vec![broken(), none()]).unwrap();
    assert_eq!((answer.v4, answer.v6), (None, Some(vec![])));
    let found = of(found("10.0.0.1"), failure(true, false));
    let answer = combine(vec![broken(), found]).unwrap();
    assert_eq!(answer.v4, Some(vec![[10, 0, 0, 1].into()]));
    assert_eq!(answer.ttl, Duration::from_secs(30));
}
